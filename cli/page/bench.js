// Pictures of measurements: the roofline, and times with their intervals.

const TIMED = Array.from({length: NUM_TIMINGS}, (_, i) => i);
const SERIES = ['series-0', 'series-1', 'series-2', 'series-3', 'series-4', 'series-5'];

// A sign of its own for each series, since colours may not be told apart.
function pointAt(x, y, series, attributes = {}) {
  const kind = `point ${SERIES[series % SERIES.length]}`, r = 4.5;
  const all = {class: kind, ...attributes};
  switch (series % 4) {
    case 1:
      return element(
          'rect', {...all, x: x - r + 0.5, y: y - r + 0.5, width: 2 * r - 1, height: 2 * r - 1});
    case 2:
      return element('polygon', {
        ...all,
        points: `${x},${y - r - 1} ${x + r + 1},${y + r - 1} ${x - r - 1},${y + r - 1}`
      });
    case 3:
      return element('polygon', {
        ...all,
        points: `${x},${y - r - 1.5} ${x + r + 1.5},${y} ${x},${y + r + 1.5} ${x - r - 1.5},${y}`
      });
    default:
      return element('circle', {...all, cx: x, cy: y, r});
  }
}

function seriesLegend(names) {
  return element(
      'p', {class: 'legend'},
      names.map(
          (name, i) => element('span', {}, drawing(16, 14, name, pointAt(8, 7, i)), ` ${name}`)));
}

function timedRow(i) {
  return TIMINGS.row[i];
}

function timingTip(i) {
  const row = timedRow(i);
  const interval = TIMINGS.low[i] === null ?
      'no interval' :
      `${milliseconds(TIMINGS.low[i])} to ${milliseconds(TIMINGS.high[i])}`;
  return [
    CASES.name[row],
    `${plural(CASES.threads[row], 'thread')}, ${wordOf('isa', row)}, ${wordOf('algorithm', row)}`,
    `${milliseconds(TIMINGS.median[i])} (${interval})`,
    ...(TIMINGS.gflops[i] === null ?
            [] :
            [`${digits(TIMINGS.gflops[i], 3)} GFLOP/s${
                TIMINGS.share[i] === null ?
                    '' :
                    `, ${percent(TIMINGS.share[i])} of what the machine can do, bound by ${
                        DATA.words.bound[TIMINGS.bound[i]]}`}`])
  ];
}

function benchRecord(i) {
  return caseRecord(timedRow(i));
}

// The machine's limits in each report, as [report, peaks of a number of threads].
function allPeaks() {
  return DATA.reports.flatMap(
      (report, number) =>
          (report.context?.convgrad?.peaks?.measured ?? []).map((peaks) => [number, peaks]));
}

function rooflineView() {
  const view = element('section');
  const peaks = allPeaks();
  const threads = [...new Set(TIMED.map((i) => CASES.threads[timedRow(i)]))].sort((a, b) => a - b);
  const reports = [...new Set(TIMED.map((i) => CASES.report[timedRow(i)]))];
  const choices = reports.flatMap((report) => threads.map((count) => ({report, count})))
                      .filter(
                          ({report, count}) => TIMED.some(
                              (i) => CASES.report[timedRow(i)] === report &&
                                  CASES.threads[timedRow(i)] === count));
  const place = element('div');
  const draw = (choice) => place.replaceChildren(...guarded(() => [rooflineFigure(choice, peaks)]));
  const select = element(
      'select', {'data-filter': 'roofline', change: () => draw(choices[Number(select.value)])},
      choices.map(
          ({report, count}, i) => element(
              'option', {value: i},
              `${DATA.reports.length > 1 ? `${reportLetter(report)}, ` : ''}${
                  plural(count, 'thread')}`)));
  view.append(
      element(
          'p', {class: 'filters'},
          element('label', {}, element('span', {}, 'Measured with'), select)),
      place);
  if (choices.length > 0) draw(choices[0]);
  return view;
}

function rooflineFigure({report, count}, allOfThem) {
  const points = TIMED.filter(
      (i) => CASES.report[timedRow(i)] === report && CASES.threads[timedRow(i)] === count &&
          TIMINGS.intensity[i] > 0 && TIMINGS.gflops[i] > 0);
  if (points.length === 0) return element('p', {class: 'quiet'}, 'No case has a speed.');
  const peaks = allOfThem.filter(([number, one]) => number === report && one.threads === count)
                    .map(([, one]) => one);
  const left = 74, right = 900, top = 20, bottom = 480;
  const xs = points.map((i) => TIMINGS.intensity[i]), ys = points.map((i) => TIMINGS.gflops[i]);
  const roofs = peaks.flatMap((one) => [one.gflops.float32, one.gflops.float64]);
  // So wide that each slope is seen to meet the roof.
  const ridges =
      peaks.flatMap((one) => one.bandwidth.map((level) => one.gflops.float32 / level.read_gbs));
  const lowX = Math.min(...xs, ...ridges) / 2.5, highX = Math.max(...xs, ...ridges) * 2;
  const x = scale(lowX, highX, left, right, true);
  const lowY = Math.min(...ys) / 2, highY = Math.max(...ys, ...roofs) * 1.6;
  const y = scale(lowY, highY, bottom, top, true);
  const limits =
      peaks.flatMap((one, k) => roofLines(one, k, {lowX, highX, lowY, highY, x, y, right, left}));
  const dtypes = [...new Set(points.map((i) => wordOf('dtype', timedRow(i))))].sort();
  const dots = points.map((i) => {
    const row = timedRow(i);
    const dot = pointAt(
        x(TIMINGS.intensity[i]), y(TIMINGS.gflops[i]), dtypes.indexOf(wordOf('dtype', row)),
        {'data-row': row, click: () => showCase(row)});
    return withTip(
        dot, () => [...timingTip(i), `${digits(TIMINGS.intensity[i], 3)} operations a byte`]);
  });
  const picture = drawing(
      right + 20, bottom + 44, 'Speed over arithmetic intensity, under the limits of the machine',
      xAxis(x, bottom, left, right, 'operations a byte of operands and result', top),
      yAxis(y, left, bottom, top, 'GFLOP/s', right), limits, dots);
  return figure(
      `Roofline, ${plural(count, 'thread')}${
          DATA.reports.length > 1 ? `, report ${reportLetter(report)}` : ''}`,
      picture, {
        name: 'roofline',
        legend: seriesLegend(dtypes),
        note: peaks.length === 0 ?
            'The report has no measured peaks of this number of threads.' :
            'Slopes: what each level of the memory reads at best; flat lines: multiply-adds at best. All measured on the machine itself. A point leads to its case.',
        rows: () => points.map(benchRecord)
      });
}

function roofLines(peaks, dashes, {lowX, highX, lowY, highY, x, y, right, left}) {
  const nodes = [];
  const flat = [['float32', peaks.gflops.float32], ['float64', peaks.gflops.float64]];
  const top = Math.max(...flat.map(([, value]) => value));
  for (const [type, value] of flat) {
    if (value < lowY || value > highY) continue;
    nodes.push(
        element('line', {class: 'roof', x1: left, x2: right, y1: y(value), y2: y(value)}),
        label(
            right - 4, y(value) - 5, `${type} ${digits(value, 3)} GFLOP/s`,
            {'text-anchor': 'end', class: 'roof-label'}));
  }
  peaks.bandwidth.forEach((level, i) => {
    // From where the slope enters the picture to where it meets the roof.
    const from = Math.max(lowX, lowY / level.read_gbs), to = Math.min(highX, top / level.read_gbs);
    if (from >= to) return;
    nodes.push(element('line', {
      class: `roof level-${i}`,
      x1: x(from),
      x2: x(to),
      y1: y(from * level.read_gbs),
      y2: y(to * level.read_gbs)
    }));
    const angle = Math.atan2(y(to * level.read_gbs) - y(from * level.read_gbs), x(to) - x(from)) *
        180 / Math.PI;
    const start = Math.min(from * 1.12, to);
    nodes.push(element(
        'text', {
          class: 'roof-label',
          dy: -6,
          transform:
              `translate(${x(start)} ${y(start * level.read_gbs)}) rotate(${angle.toFixed(1)})`
        },
        `${level.level} ${digits(level.read_gbs, 3)} GB/s`));
  });
  return nodes;
}

const TIMES_A_PAGE = 60;

// Rows with a point and its interval each, some at a time.
function intervalView({title, name, note, items, orders, pictureOf, recordOf}) {
  const view = element('section');
  const place = element('div');
  let order = 0, first = 0, text = '';
  const search = element('input', {
    type: 'search',
    placeholder: 'name',
    'aria-label': `Search ${title}`,
    input: () => {
      text = search.value.toLowerCase();
      first = 0;
      draw();
    }
  });
  const select = element(
      'select', {
        'data-filter': `order-${name}`,
        change: () => {
          order = Number(select.value);
          first = 0;
          draw();
        }
      },
      orders.map(([word], i) => element('option', {value: i}, word)));
  const draw = () => {
    const shown = items.filter((item) => text === '' || item.name.toLowerCase().includes(text))
                      .sort(orders[order][1]);
    const part = shown.slice(first, first + TIMES_A_PAGE);
    const move = (to, word) => element(
        'button', {
          type: 'button',
          disabled: to < 0 || to >= shown.length || to === first,
          click: () => {
            first = to;
            draw();
          }
        },
        word);
    place.replaceChildren(
        figure(
            title,
            part.length > 0 ? pictureOf(part) : element('p', {class: 'quiet'}, 'No such case.'),
            {name, note, rows: () => shown.map(recordOf)}),
        element(
            'p', {class: 'pager'}, move(Math.max(0, first - TIMES_A_PAGE), '◀ Before'),
            ` ${whole(Math.min(first + 1, shown.length))}–${whole(first + part.length)} of ${
                whole(shown.length)} `,
            move(first + TIMES_A_PAGE, 'Next ▶')));
  };
  view.append(
      element(
          'p', {class: 'filters'}, search,
          element('label', {}, element('span', {}, 'Order'), select)),
      place);
  draw();
  return view;
}

function shortened(text, most = 46) {
  const letters = Array.from(visible(text));
  return letters.length <= most ? letters.join('') : `${letters.slice(0, most - 1).join('')}…`;
}

function timesView() {
  const items = TIMED.map((i) => ({i, row: timedRow(i), name: CASES.name[timedRow(i)]}));
  const pictureOf = (part) => {
    const left = 390, right = 900, line = 22, top = 14, bottom = top + part.length * line;
    const ends = part.flatMap(
                         ({i}) =>
                             [TIMINGS.median[i], TIMINGS.low[i], TIMINGS.high[i], TIMINGS.p5[i],
                              TIMINGS.p95[i]])
                     .filter((value) => value > 0);
    const x = scale(Math.min(...ends) * 0.9, Math.max(...ends) * 1.1, left, right, true);
    const threads = [...new Set(part.map(({row}) => CASES.threads[row]))].sort((a, b) => a - b);
    return drawing(
        right + 20, bottom + 44, 'Times with their intervals',
        xAxis(x, bottom, left, right, 'milliseconds', top, (v) => digits(v, 3)),
        part.map(({i, row}, k) => {
          const y = top + (k + 0.5) * line, series = threads.indexOf(CASES.threads[row]);
          const caption =
              `${DATA.reports.length > 1 ? `${reportLetter(CASES.report[row])}  ` : ''}${
                  shortened(CASES.name[row])}, ${CASES.threads[row]} thr.`;
          const group = element(
              'g', {class: 'clickable', click: () => showCase(row)}, element('rect', {
                class: k % 2 ? 'stripe' : 'stripe even',
                x: 0,
                y: y - line / 2,
                width: right,
                height: line
              }),
              label(left - 8, y + 4, caption, {'text-anchor': 'end'}),
              TIMINGS.p5[i] > 0 ? element('line', {
                class: 'whisker',
                x1: x(TIMINGS.p5[i]),
                x2: x(TIMINGS.p95[i]),
                y1: y,
                y2: y
              }) :
                                  null,
              TIMINGS.low[i] > 0 ? element('line', {
                class: `interval ${SERIES[series % 6]}`,
                x1: x(TIMINGS.low[i]),
                x2: Math.max(x(TIMINGS.high[i]), x(TIMINGS.low[i]) + 1),
                y1: y,
                y2: y
              }) :
                                   null,
              pointAt(x(TIMINGS.median[i]), y, series));
          return withTip(group, () => timingTip(i));
        }));
  };
  const by = (key) => (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.row - b.row);
  return intervalView({
    title: 'Time of each case',
    name: 'times',
    items,
    pictureOf,
    recordOf: ({i}) => benchRecord(i),
    note:
        'Point: median; thick: its 95 % confidence interval; thin: from the 5th to the 95th percentile. A sign for each number of threads.',
    orders: [
      ['as measured', by(({row}) => row)], ['slowest first', by(({i}) => -TIMINGS.median[i])],
      ['name', by(({name}) => name)],
      ['furthest from the roofline', by(({i}) => TIMINGS.share[i] ?? 2)]
    ]
  });
}
