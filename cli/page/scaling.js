// How measurements scale over threads and instruction sets.

// Cases of one name measured with several numbers of threads, or instruction sets.
function scalingGroups() {
  const groups = new Map();
  for (const i of TIMED) {
    const row = timedRow(i),
          key = `${CASES.name[row]}\n${wordOf('isa', row)}\n${CASES.report[row]}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(i);
  }
  return [...groups.values()]
      .map((list) => list.sort((a, b) => CASES.threads[timedRow(a)] - CASES.threads[timedRow(b)]))
      .filter((list) => new Set(list.map((i) => CASES.threads[timedRow(i)])).size > 1);
}

function isaGroups() {
  const groups = new Map();
  for (const i of TIMED) {
    const row = timedRow(i), key = `${CASES.name[row]}\n${CASES.threads[row]}`;
    if (!groups.has(key)) groups.set(key, new Map());
    if (!groups.get(key).has(wordOf('isa', row))) groups.get(key).set(wordOf('isa', row), i);
  }
  return [...groups.values()].filter((isas) => isas.size > 1);
}

function geometricMean(values) {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}

function scalingView() {
  const view = element('section'), groups = scalingGroups(), isas = isaGroups();
  if (groups.length > 0) view.append(...guarded(() => [threadsFigure(groups)]));
  if (isas.length > 0) view.append(...guarded(() => [isaFigure(isas)]));
  return view;
}

function threadsFigure(groups) {
  const speedups =
      groups.map((list) => list.map((i) => ({
                                      i,
                                      threads: CASES.threads[timedRow(i)],
                                      speedup: TIMINGS.median[list[0]] / TIMINGS.median[i] *
                                          CASES.threads[timedRow(list[0])]
                                    })));
  const threads = [...new Set(speedups.flat().map((one) => one.threads))].sort((a, b) => a - b);
  const left = 74, right = 700, top = 20, bottom = 380;
  const x = scale(threads[0] * 0.9, threads[threads.length - 1] * 1.1, left, right, true);
  x.ticks = threads;
  const y = scale(
      0, Math.max(threads[threads.length - 1], ...speedups.flat().map((one) => one.speedup)) * 1.08,
      bottom, top);
  const means = threads.map((count) => {
    const values = speedups.flat().filter((one) => one.threads === count).map((one) => one.speedup);
    return [count, geometricMean(values)];
  });
  const path = (points) =>
      points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ');
  const picture = drawing(
      right + 20, bottom + 44, 'Speed over threads', xAxis(x, bottom, left, right, 'threads', top),
      yAxis(y, left, bottom, top, 'times as fast', right),
      element('polyline', {class: 'ideal', points: path(threads.map((count) => [count, count]))}),
      speedups.map(
          (list) => withTip(
              element('polyline', {
                class: 'thin',
                points: path(list.map((one) => [one.threads, one.speedup])),
                click: () => showCase(timedRow(list[0].i))
              }),
              () =>
                  [CASES.name[timedRow(list[0].i)],
                   ...list.map(
                       (one) => `${plural(one.threads, 'thread')}: ${digits(one.speedup, 3)}`)])),
      element('polyline', {class: 'mean', points: path(means)}),
      means.map(([count, value]) => pointAt(x(count), y(value), 0)));
  return figure('Scaling over threads', picture, {
    name: 'scaling-threads',
    note:
        'Each thin line is a case; thick: their geometric mean; dashed: as many times as fast as there are threads.',
    rows: () => speedups.flat().map((one) => ({
                                      name: CASES.name[timedRow(one.i)],
                                      isa: wordOf('isa', timedRow(one.i)),
                                      threads: one.threads,
                                      ms: TIMINGS.median[one.i],
                                      times_as_fast: one.speedup
                                    }))
  });
}

function isaFigure(groups) {
  const order = ['scalar', 'neon', 'avx2', 'avx512'];
  const names = [...new Set(groups.flatMap((isas) => [...isas.keys()]))].sort(
      (a, b) => order.indexOf(a) - order.indexOf(b));
  const ratios = groups.map((isas) => {
    const base = names.find((name) => isas.has(name));
    return {
      row: timedRow(isas.get(base)),
      base,
      values: new Map(
          [...isas].map(([name, i]) => [name, TIMINGS.median[isas.get(base)] / TIMINGS.median[i]]))
    };
  });
  const left = 90, right = 700, line = 46, top = 16, bottom = top + names.length * line;
  const x =
      scale(0, Math.max(...ratios.flatMap(({values}) => [...values.values()])) * 1.05, left, right);
  const picture = drawing(
      right + 20, bottom + 44, 'Speed over instruction sets',
      xAxis(x, bottom, left, right, `times as fast as ${names[0]}`, top), names.map((name, k) => {
        const values = ratios.filter((one) => one.values.has(name));
        const y = top + (k + 0.5) * line;
        const mean = geometricMean(values.map((one) => one.values.get(name)));
        return [
          label(left - 8, y + 4, name, {'text-anchor': 'end'}),
          values.map(
              (one, i) => withTip(
                  pointAt(
                      x(one.values.get(name)), y + ((i * 7) % 21) - 10, k,
                      {click: () => showCase(one.row)}),
                  () => [CASES.name[one.row], `${name}: ${digits(one.values.get(name), 3)}`])),
          element('line', {class: 'mean', x1: x(mean), x2: x(mean), y1: y - 17, y2: y + 17}),
          label(x(mean) + 5, y - 12, digits(mean, 3))
        ];
      }));
  return figure('Instruction sets', picture, {
    name: 'scaling-isa',
    note: 'Each point is a case with the same threads; line: geometric mean.',
    rows: () => ratios.flatMap(
        ({row, values}) => [...values].map(
            ([isa, value]) =>
                ({name: CASES.name[row], threads: CASES.threads[row], isa, times_as_fast: value})))
  });
}
