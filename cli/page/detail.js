// Everything about one case: why, what the mistake is, where the errors are.

function detailOf(row) {
  const detail = DATA.details[row] ?? {};
  const check = detail.check ?? null;
  const node = element(
      'div', {class: 'case'},
      element('h2', {}, statusBadge(wordOf('status', row)), ' ', CASES.name[row]),
      CASES.name[row].startsWith(`${wordOf('op', row)} `) ?
          null :
          element('p', {class: 'problem'}, problemLine(row)),
      factsOf(row, detail));
  if (!DATA.details[row] && !CASES.right[row]) {
    node.append(element(
        'p', {class: 'quiet'},
        `${
            wordOf(
                'reason',
                row)} (the rest of this case is in the report: the page has no room for all ${
            whole(DATA.without_details)} like it)`));
  }
  if (detail.error)
    node.append(
        element('p', {class: 'why'}, detail.error.message),
        element('p', {class: 'quiet'}, `code ${detail.error.code}`));
  if (detail.probe && detail.probe.status !== 'PASSED')
    node.append(verdictOf(detail.probe, 'Probe with small integers'));
  if (check) node.append(verdictOf(check, `Against the ${check.against ?? 'golden'}`));
  if (check?.diagnosis) node.append(diagnosisOf(check.diagnosis));
  if (detail.repro) node.append(commandOf('To repeat it', detail.repro));
  if (detail.pending?.accept)
    node.append(commandOf('To make this result the golden', detail.pending.accept));
  const profile = DATA.profiles[row];
  if (profile)
    node.append(...guarded(() => errorFigures(profile, check)));
  else if (check && !CASES.right[row] && check.counts?.elements > 0)
    node.append(element(
        'p', {class: 'quiet'},
        'No profile of the errors is here: the page has no room, or the report is without one.'));
  if (check && check.counts?.differ > 0)
    node.append(...guarded(() => [worstTable(profile, check)]));
  if (detail.inputs?.length > 0) node.append(...guarded(() => [inputsOf(detail)]));
  node.append(element(
      'p', {class: 'tools'},
      element(
          'button', {
            type: 'button',
            click: () => download(
                'case.json', 'application/json',
                JSON.stringify({...caseRecord(row), ...detail, profile}, null, 1))
          },
          'All of this case as JSON')));
  return node;
}

// A report may come from anywhere: what can't be drawn is said, the rest is drawn.
function guarded(draw) {
  try {
    return draw();
  } catch (error) {
    return [element(
        'p', {class: 'quiet'}, `This part of the report can't be drawn: ${error.message}`)];
  }
}

function factsOf(row, detail) {
  const timing = TIMING_OF_ROW.get(row);
  const facts = [
    ['threads', CASES.threads[row]], ['instruction set', wordOf('isa', row)],
    ['algorithm', wordOf('algorithm', row)], ['precision', detail.run?.precision],
    ['time', milliseconds(CASES.ms[row])], ['tags', tagsOf(row).join(', ')]
  ];
  if (timing !== undefined) {
    facts.push(
        [
          'speed',
          TIMINGS.gflops[timing] === null ? '' : `${digits(TIMINGS.gflops[timing], 3)} GFLOP/s`
        ],
        ['of the best possible', percent(TIMINGS.share[timing])]);
  }
  return element(
      'dl', {class: 'facts'},
      facts.filter(([, value]) => value !== undefined && value !== null && value !== '')
          .map(
              ([name, value]) =>
                  element('div', {}, element('dt', {}, name), element('dd', {}, String(value)))));
}

function verdictOf(check, title) {
  const counts = check.counts ?? {};
  return element(
      'section', {class: 'verdict'}, element('h3', {}, title),
      element('p', {class: 'why'}, `${check.reason} (${check.policy})`),
      check.detail ? element('p', {}, check.detail) : null,
      check.where?.text ? element('p', {}, element('strong', {}, 'Where: '), check.where.text) :
                          null,
      element(
          'p', {class: 'quiet'},
          `${whole(counts.elements)} elements: ${whole(counts.differ)} differ, ${
              whole(counts.suspect)} suspect, ${whole(counts.fail)} fail` +
              (counts.nan > 0 ? `, ${whole(counts.nan)} NaN` : '') +
              (counts.inf > 0 ? `, ${whole(counts.inf)} infinite` : '')),
      counts.differ > 0 && check.needs ?
          element(
              'p', {class: 'quiet'},
              `Would pass: ulp:${digits(check.needs.ulp, 9)}, abs:${
                  digits(check.needs.abs)} or rel:${digits(check.needs.rel)}`) :
          null);
}

function diagnosisOf(diagnosis) {
  return element(
      'section', {class: 'diagnosis'},
      element(
          'h3', {}, `Explained ${diagnosis.explains} by `,
          element('code', {}, diagnosis.hypothesis)),
      element(
          'div', {class: 'mistake'}, pictureOfMistake(diagnosis.hypothesis),
          element('p', {}, diagnosis.sentence)),
      diagnosis.also?.length > 0 ?
          element('p', {class: 'quiet'}, `As good on these data: ${diagnosis.also.join(', ')}`) :
          null);
}

function commandOf(title, command) {
  return element(
      'section', {class: 'command'}, element('h3', {}, title), element('pre', {}, command),
      copyButton(command));
}

function worstTable(profile, check) {
  const list = profile?.worst?.length > 0 ?
      profile.worst.map((worst) => ['', worst]) :
      Object.entries(check.worst ?? {}).filter(([, worst]) => worst).map(([
                                                                           measure, worst
                                                                         ]) => [measure, worst]);
  const number = (worst, key) =>
      worst[key] === null ? worst[`${key}_class`] ?? 'no number' : String(worst[key]);
  const rows =
      list.map(([measure, worst]) => ({
                 ...(measure ? {'worst by': measure} : {}),
                 index: `[${worst.index.join(', ')}]`,
                 actual: number(worst, 'actual'),
                 expected: number(worst, 'expected'),
                 error: worst.value === null ? worst.value_class ?? '' : digits(worst.value),
                 'actual bits': worst.actual_bits,
                 'expected bits': worst.expected_bits
               }));
  return figure('The worst elements', tableOf(rows), {name: 'worst-elements', rows: () => rows});
}

function inputsOf(detail) {
  const rows = detail.inputs.map(
      (input) => ({role: input.role, path: input.path, type: input.dtype, order: input.order}));
  if (detail.output?.path)
    rows.push({role: 'result', path: detail.output.path, type: '', order: ''});
  return element('details', {}, element('summary', {}, 'Files'), tableOf(rows));
}
