// Reports side by side, and measurements against a baseline.

const VERDICTS = [
  ['FASTER', '▲', 'good'], ['SAME', '=', 'plain'], ['SLOWER', '▼', 'bad'],
  ['INCONCLUSIVE', '?', 'doubtful'], ['NEW', '+', 'plain']
];

function verdictBadge(verdict) {
  const [, sign, kind] = VERDICTS.find(([name]) => name === verdict) ?? ['', '–', 'plain'];
  return element(
      'span', {class: `status ${kind}`},
      element('span', {class: 'sign', 'aria-hidden': 'true'}, sign), verdict);
}

// Each with its ratio of times, new over old.
function ratiosOfReports() {
  const compared = DATA.compared, items = [];
  for (let k = 0; k < (compared.row?.length ?? 0); ++k) {
    if (compared.ratio[k] === null) continue;
    const row = compared.row[k];
    items.push({
      row,
      name: CASES.name[row],
      ratio: compared.ratio[k],
      low: compared.low[k],
      high: compared.high[k],
      verdict: compared.verdict[k],
      before: CASES.ms[compared.base[k]],
      now: CASES.ms[row]
    });
  }
  return items;
}

function ratiosOfBaselines() {
  return TIMED.filter((i) => TIMINGS.ratio[i] !== null)
      .map((i) => ({
             row: timedRow(i),
             name: CASES.name[timedRow(i)],
             ratio: TIMINGS.ratio[i],
             low: TIMINGS.ratio_low[i],
             high: TIMINGS.ratio_high[i],
             verdict: DATA.words.verdict[TIMINGS.verdict[i]],
             before: TIMINGS.median[i] / TIMINGS.ratio[i],
             now: TIMINGS.median[i]
           }));
}

function ratioPicture(part) {
  const left = 390, right = 820, line = 22, top = 14, bottom = top + part.length * line;
  const ends =
      part.flatMap((item) => [item.ratio, item.low, item.high]).filter((value) => value > 0);
  const x = scale(Math.min(0.8, ...ends) * 0.98, Math.max(1.25, ...ends) * 1.02, left, right, true);
  return drawing(
      right + 150, bottom + 44, 'Ratios of times with their intervals',
      xAxis(
          x, bottom, left, right, 'time over the earlier time: left is faster', top,
          (v) => digits(v, 3)),
      part.map((item, k) => {
        const y = top + (k + 0.5) * line;
        const [, sign, kind] =
            VERDICTS.find(([name]) => name === item.verdict) ?? ['', '–', 'plain'];
        const threads = CASES.threads[item.row];
        return withTip(
            element(
                'g', {class: `clickable verdict-${kind}`, click: () => showCase(item.row)},
                element('rect', {
                  class: k % 2 ? 'stripe' : 'stripe even',
                  x: 0,
                  y: y - line / 2,
                  width: right + 150,
                  height: line
                }),
                label(
                    left - 8, y + 4,
                    `${DATA.reports.length > 2 ? `${reportLetter(CASES.report[item.row])}  ` : ''}${
                        shortened(item.name)}, ${threads} thr.`,
                    {'text-anchor': 'end'}),
                item.low > 0 ? element('line', {
                  class: 'interval',
                  x1: x(item.low),
                  x2: Math.max(x(item.high), x(item.low) + 1),
                  y1: y,
                  y2: y
                }) :
                               null,
                element('circle', {class: 'point', cx: x(item.ratio), cy: y, r: 4.5}),
                label(right + 12, y + 4, `${sign} ${digits(item.ratio, 3)} ${item.verdict ?? ''}`)),
            () =>
                [item.name, `was ${milliseconds(item.before)}, is ${milliseconds(item.now)}`,
                 `ratio ${digits(item.ratio, 4)}${
                     item.low > 0 ? ` (${digits(item.low, 4)} to ${digits(item.high, 4)})` :
                                    ', no interval'}`,
                 item.verdict ?? '']);
      }),
      element('rect', {
        class: 'band',
        x: x(1 / 1.05),
        y: top,
        width: x(1.05) - x(1 / 1.05),
        height: bottom - top
      }),
      element('line', {class: 'one', x1: x(1), x2: x(1), y1: top, y2: bottom}));
}

function ratioRecord(item) {
  return {
    name: item.name,
    threads: CASES.threads[item.row],
    ms: item.now,
    ms_before: item.before,
    ratio: item.ratio,
    low: item.low,
    high: item.high,
    verdict: item.verdict
  };
}

function ratiosView(items, title, name) {
  const counts =
      VERDICTS
          .map(([verdict]) => [verdict, items.filter((item) => item.verdict === verdict).length])
          .filter(([, count]) => count > 0);
  const mean = geometricMean(items.map((item) => item.ratio));
  const by = (key) => (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.row - b.row);
  return element(
      'section', {},
      element(
          'p', {class: 'summary'},
          counts.map(
              ([verdict, count]) => element(
                  'span', {}, verdictBadge(verdict), element('strong', {}, ` ${whole(count)}`))),
          element(
              'span', {}, `geometric mean of the ratios `, element('strong', {}, digits(mean, 4)))),
      intervalView({
        title,
        name,
        items,
        pictureOf: ratioPicture,
        recordOf: ratioRecord,
        note:
            'Point: ratio of the medians; line: its 95 % confidence interval; band: 5 %, which counts as the same. The verdict is what the whole interval says.',
        orders: [
          ['slower first', by((item) => -item.ratio)], ['faster first', by((item) => item.ratio)],
          ['as in the report', by((item) => item.row)], ['name', by((item) => item.name)]
        ]
      }));
}

// Cases that ended otherwise than in the first report.
function changesView() {
  const compared = DATA.compared, changed = [];
  for (let k = 0; k < (compared.row?.length ?? 0); ++k) {
    const row = compared.row[k], base = compared.base[k];
    if (CASES.status[row] !== CASES.status[base]) changed.push({row, base});
  }
  const records = () => changed.map(({row, base}) => ({
                                      name: CASES.name[row],
                                      report: reportLetter(CASES.report[row]),
                                      before: wordOf('status', base),
                                      now: wordOf('status', row),
                                      reason: wordOf('reason', row)
                                    }));
  return element(
      'section', {},
      element(
          'h3', {class: 'part'},
          `Cases that end otherwise than in report A: ${whole(changed.length)}`),
      changed.length === 0 ?
          element(
              'p', {class: 'quiet'},
              `All ${whole(compared.row?.length ?? 0)} cases that both have end alike.`) :
          element(
              'div', {class: 'numbers'},
              element(
                  'table', {},
                  element(
                      'thead', {},
                      element(
                          'tr', {},
                          ['Case', 'Report', 'A', 'now', 'why'].map(
                              (word) => element('th', {scope: 'col'}, word)))),
                  element(
                      'tbody', {},
                      changed.slice(0, MOST_TABLE_ROWS)
                          .map(
                              ({row, base}) => element(
                                  'tr', {},
                                  element(
                                      'td', {},
                                      element(
                                          'button', {
                                            type: 'button',
                                            class: 'link',
                                            click: () => showCase(row)
                                          },
                                          CASES.name[row])),
                                  element('td', {}, reportLetter(CASES.report[row])),
                                  element('td', {}, statusBadge(wordOf('status', base))),
                                  element('td', {}, statusBadge(wordOf('status', row))),
                                  element('td', {}, wordOf('reason', row))))))),
      changed.length > 0 ?
          element(
              'p', {class: 'tools'},
              element(
                  'button', {
                    type: 'button',
                    click: () => download('changes.csv', 'text/csv', csvOf(records()))
                  },
                  'CSV')) :
          null);
}

// The facts of each report, beside each other; those that differ stand out.
function reportsView() {
  const facts = [
    ['file', (r) => r.name], ['command', (r) => r.context?.convgrad?.command],
    ['date', (r) => r.context?.date], ['machine', (r) => r.context?.host],
    ['processor', (r) => r.context?.cpu_model], ['version', (r) => r.context?.version],
    ['commit', (r) => r.context?.commit], ['build', (r) => r.context?.build_type],
    ['compiler', (r) => r.context?.compiler], ['instruction set', (r) => r.context?.convgrad?.isa],
    ['threads', (r) => r.context?.convgrad?.threads],
    ['order of sums', (r) => r.context?.convgrad?.algo], ['shard', (r) => r.context?.plan?.shard],
    ['cases of the plan', (r) => r.context?.plan?.cases], ['error', (r) => r.error?.message],
    ['notes', (r) => r.notes.join('; ')],
    [
      'cases',
      (r) =>
          Object.entries(r.counts).map(([status, count]) => `${whole(count)} ${status}`).join(', ')
    ]
  ];
  const rows =
      facts.map(([name, of]) => [name, DATA.reports.map((report) => String(of(report) ?? ''))])
          .filter(([, values]) => values.some(Boolean));
  const differs = (values) => values.length > 1 && new Set(values).size > 1;
  return element(
      'section', {},
      element(
          'div', {class: 'numbers'},
          element(
              'table', {class: 'facts'},
              element(
                  'thead', {},
                  element(
                      'tr', {}, element('th', {}),
                      DATA.reports.map(
                          (_, i) => element(
                              'th', {scope: 'col'},
                              DATA.reports.length > 1 ? `Report ${reportLetter(i)}` : 'Report')))),
              element(
                  'tbody', {},
                  rows.map(
                      ([name, values]) => element(
                          'tr', {class: differs(values) ? 'differs' : null},
                          element('th', {scope: 'row'}, name),
                          values.map((value) => element('td', {}, value))))))));
}
