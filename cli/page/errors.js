// Pictures of the errors of one tensor: where they are how large, and how many of each size.

const MEASURES = {
  bound: 'share of the bound',
  ulp: 'ULP',
  abs: 'absolute error',
  rel: 'relative error',
  tolerance: 'share of what the tolerance allows'
};

function errorFigures(profile, check) {
  const limit = profile.limit;
  const known =
      [
        ...profile.grids.flatMap((grid) => grid.worst.flat()),
        ...profile.axes.flatMap((axis) => [...axis.low, ...axis.high])
      ].filter((value) => value !== null)
          .map((value) => Math.abs(overLimit(value, limit)));
  const most = Math.max(1, ...known.filter(Number.isFinite));
  const unit = limit > 0 && profile.measure !== 'bound' ?
      `${MEASURES[profile.measure]}, ${digits(limit)} is allowed` :
      MEASURES[profile.measure] ?? profile.measure;
  const nodes =
      [element('h3', {class: 'part'}, 'Where the errors are'), signedLegend(most, limit, unit)];
  const maps = profile.grids.map((grid, i) => gridFigure(grid, limit, unit, i));
  const axes = profile.axes.map((axis, i) => axisFigure(axis, limit, most, unit, i));
  nodes.push(
      element('div', {class: 'figures'}, maps, axes),
      element('h3', {class: 'part'}, 'How large they are'),
      element(
          'div', {class: 'figures'}, errorHistogram(profile, unit), ulpHistogram(profile, check)));
  return nodes;
}

function signedLegend(most, limit, unit) {
  const width = 460, place = (value) => width / 2 + signedPlace(value, most) * (width / 2 - 30);
  const steps = [];
  for (let k = -40; k < 40; ++k) {
    const middle = (k + 0.5) / 40, size = Math.abs(middle);
    const value = most <= 1 ? size * most : size <= 0.5 ? 2 * size : most ** (2 * size - 1);
    steps.push(element('rect', {
      class: middle < 0 ? 'negative' : 'positive',
      'fill-opacity': strength(value).toFixed(3),
      x: width / 2 + k / 40 * (width / 2 - 30),
      y: 20,
      width: (width / 2 - 30) / 40,
      height: 14,
      'shape-rendering': 'crispEdges'
    }));
  }
  const mark = (value, text, kind) =>
      [element('line', {class: kind, x1: place(value), x2: place(value), y1: 16, y2: 38}),
       label(place(value), 50, text, {'text-anchor': 'middle'})];
  return element(
      'div', {class: 'legend'},
      drawing(
          width, 56,
          `Colours: errors from ${digits(-most, 3)} to ${digits(most, 3)} times what is allowed`,
          label(30, 12, '◀ too small'),
          label(width - 30, 12, 'too large ▶', {'text-anchor': 'end'}), steps, mark(0, '0', 'tick'),
          mark(-1, limit > 0 ? '−bound' : '−1 ULP', 'bound'),
          mark(1, limit > 0 ? 'bound' : '1 ULP', 'bound'),
          most > 2.5 ? [mark(-most, `−${times(most)}`, 'tick'), mark(most, times(most), 'tick')] :
                       null),
      element(
          'p', {class: 'quiet'},
          `Errors: ${
              unit}. A dot marks what is beyond the bound, a cross NaN or infinity where a number is expected or the other way round.`));
}

// The positions of one of `parts` equal parts of an axis.
function positionsOf(part, parts, size) {
  const first = Math.ceil(part * size / parts), last = Math.ceil((part + 1) * size / parts) - 1;
  return first === last ? String(first) : `${first}–${last}`;
}

function gridFigure(grid, limit, unit, number) {
  const rows = grid.worst.length, columns = grid.worst[0].length;
  const cell = Math.max(6, Math.min(28, Math.floor(Math.min(448 / columns, 360 / rows))));
  const left = 44, top = 20, width = Math.max(180, left + columns * cell + 8),
        height = top + rows * cell + 30;
  const marks = [];
  for (let r = 0; r < rows; ++r) {
    for (let c = 0; c < columns; ++c) {
      const value = grid.worst[r][c], x = left + c * cell, y = top + r * cell;
      if (value === 0) continue;
      if (value === null) {
        marks.push(
            element('rect', {class: 'nothing', x, y, width: cell, height: cell}), element('path', {
              class: 'cross',
              d: `M${x + 2} ${y + 2}L${x + cell - 2} ${y + cell - 2}M${x + cell - 2} ${y + 2}L${
                  x + 2} ${y + cell - 2}`
            }));
        continue;
      }
      const over = overLimit(value, limit);
      marks.push(element('rect', {
        class: over < 0 ? 'negative' : 'positive',
        'fill-opacity': strength(Math.abs(over)).toFixed(3),
        x,
        y,
        width: cell,
        height: cell
      }));
      if (Math.abs(over) > 1 || limit === 0)
        marks.push(element('circle', {
          class: 'beyond',
          cx: x + cell / 2,
          cy: y + cell / 2,
          r: Math.max(1, cell / 9).toFixed(1)
        }));
    }
  }
  const every = (count) => Math.max(1, Math.ceil(count / 12));
  const ticks = [];
  for (let c = 0; c < columns; c += every(columns))
    ticks.push(label(
        left + (c + 0.5) * cell, height - 16,
        positionsOf(c, columns, grid.across_size).split('–')[0], {'text-anchor': 'middle'}));
  for (let r = 0; r < rows; r += every(rows))
    ticks.push(label(
        left - 5, top + (r + 0.5) * cell + 4, positionsOf(r, rows, grid.down_size).split('–')[0],
        {'text-anchor': 'end'}));
  const picture = drawing(
      width, height, `Errors over ${grid.down} and ${grid.across}`,
      element(
          'rect', {class: 'ground', x: left, y: top, width: columns * cell, height: rows * cell}),
      marks,
      element(
          'rect', {class: 'frame', x: left, y: top, width: columns * cell, height: rows * cell}),
      ticks, label(left, 12, `${grid.down} ↓`),
      label(left + columns * cell, height - 2, `${grid.across} →`, {'text-anchor': 'end'}));
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    const scaleOf = width / box.width;
    const c = Math.floor(((event.clientX - box.left) * scaleOf - left) / cell),
          r = Math.floor(((event.clientY - box.top) * scaleOf - top) / cell);
    picture.tip = r >= 0 && r < rows && c >= 0 && c < columns ?
        [
          `${grid.down} ${positionsOf(r, rows, grid.down_size)}, ${grid.across} ${
              positionsOf(c, columns, grid.across_size)}`,
          `${digits(grid.worst[r][c])} (${unit})`
        ] :
        [`${grid.down}, ${grid.across}`];
  }, true);
  withTip(picture, () => picture.tip ?? []);
  return figure(`By ${grid.down} and ${grid.across}`, picture, {
    name: `errors-grid-${number}`,
    note: 'In each cell the error of the largest size.',
    rows: () => grid.worst.flatMap(
        (line, r) => line.map((value, c) => ({
                                [grid.down]: positionsOf(r, rows, grid.down_size),
                                [grid.across]: positionsOf(c, columns, grid.across_size),
                                error: value
                              })))
  });
}

function axisFigure(axis, limit, most, unit, number) {
  const count = axis.low.length, left = 54, right = 500, top = 12, bottom = 150;
  const y = (over) => (top + bottom) / 2 -
      signedPlace(Math.max(-most, Math.min(most, over)), most) * (bottom - top) / 2;
  const step = (right - left) / count;
  const bars = [];
  for (let i = 0; i < count; ++i) {
    for (const [value, kind] of [[axis.low[i], 'negative'], [axis.high[i], 'positive']]) {
      const over = value === null ? (kind === 'negative' ? -most : most) : overLimit(value, limit);
      if (over === 0) continue;
      const from = y(0), to = y(over);
      bars.push(element('rect', {
        class: value === null ? 'nothing' : kind,
        'fill-opacity': Math.abs(over) > 1 ? 1 : 0.5,
        x: left + i * step,
        y: Math.min(from, to),
        width: Math.max(0.6, step - (step > 4 ? 1 : 0)),
        height: Math.max(0.8, Math.abs(to - from))
      }));
    }
  }
  const lines = [
    [1, 'bound', limit > 0 ? 'bound' : '1'], [-1, 'bound', limit > 0 ? '−bound' : '−1'],
    [0, 'line', '0']
  ];
  if (most > 2.5) lines.push([most, 'grid', times(most, 2)], [-most, 'grid', `−${times(most, 2)}`]);
  const ticks = [];
  for (let i = 0; i < count; i += Math.max(1, Math.ceil(count / 14)))
    ticks.push(label(
        left + (i + 0.5) * step, bottom + 16, positionsOf(i, count, axis.size).split('–')[0],
        {'text-anchor': 'middle'}));
  const picture = drawing(
      right + 10, bottom + 36, `Errors along ${axis.axis}`, bars,
      lines.map(
          ([value, kind, text]) =>
              [element('line', {class: kind, x1: left, x2: right, y1: y(value), y2: y(value)}),
               label(left - 5, y(value) + 4, text, {'text-anchor': 'end'})]),
      ticks, label(right, bottom + 32, `${axis.axis} →`, {'text-anchor': 'end'}));
  return figure(`By ${axis.axis}`, picture, {
    name: `errors-axis-${number}`,
    note: `The least and the greatest error at each of ${plural(axis.size, 'position')}${
        count < axis.size ? `, ${count} parts` : ''}.`,
    rows: () => axis.low.map(
        (low, i) => ({[axis.axis]: positionsOf(i, count, axis.size), low, high: axis.high[i]}))
  });
}

// The sizes that the bins of a histogram of powers of two stand for.
function binsOf(histogram, first = 'none') {
  const bins = [{from: 0, to: 0, text: first, count: histogram.zero}];
  histogram.counts.forEach((count, i) => {
    const from = 2 ** (histogram.first + i);
    bins.push({from, to: 2 * from, text: from < 0.01 ? digits(from, 2) : digits(from, 3), count});
  });
  if (histogram.infinite > 0)
    bins.push({from: Infinity, to: Infinity, text: '∞ or NaN', count: histogram.infinite});
  return bins;
}

// Bars on a logarithmic scale of counts, so that one wrong element shows beside a million right
// ones.
function histogramPicture(bins, {title, isBad, model = null, boundAfter = null}) {
  const left = 62, right = 500, top = 14, bottom = 170;
  const largest = Math.max(1, ...bins.map((bin) => bin.count), ...(model ?? []));
  const height = (count) => count <= 0 ?
      0 :
      Math.max(2, (Math.log10(1 + count) / Math.log10(1 + largest)) * (bottom - top));
  const step = (right - left) / bins.length;
  const ticks = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].filter((tick) => tick <= largest);
  // Labels that do not touch: in the middle of the first bin and of what is no number, else at the
  // beginning.
  const every = Math.max(1, Math.ceil(52 / step));
  const isLabelled = (i) => i === 0 || i === bins.length - 1 && bins[i].from === Infinity ||
      (i - 1) % every === 0 && (i > 1 || step > 80) && (bins.length - 1 - i) * step > 60 ||
      i === bins.length - 1 && step > 60;
  const picture = drawing(
      right + 10, bottom + 42, title,
      ticks.map(
          (tick) =>
              [element('line', {
                 class: 'grid',
                 x1: left,
                 x2: right,
                 y1: bottom - height(tick),
                 y2: bottom - height(tick)
               }),
               label(left - 5, bottom - height(tick) + 4, whole(tick), {'text-anchor': 'end'})]),
      bins.map(
          (bin, i) => withTip(
              element('rect', {
                class: isBad(bin) ? 'bar-bad' : 'bar-good',
                x: left + i * step + 1,
                y: bottom - height(bin.count),
                width: Math.max(1, step - 2),
                height: height(bin.count)
              }),
              () =>
                  [bin.from === 0                ? 'no error' :
                       Number.isFinite(bin.from) ? `from ${digits(bin.from)} to ${digits(bin.to)}` :
                                                   'no number',
                   plural(bin.count, 'element'),
                   ...(model ? [`the model: ${digits(model[i] ?? 0, 3)}`] : [])])),
      bins.map(
          (bin, i) => isLabelled(i) ?
              label(
                  left + (i + (bin.from > 0 && Number.isFinite(bin.from) ? 0 : 0.5)) * step,
                  bottom + 16, bin.text, {'text-anchor': 'middle'}) :
              null),
      element('line', {class: 'line', x1: left, x2: right, y1: bottom, y2: bottom}));
  if (model) {
    const points = bins.map(
        (_, i) => `${left + i * step},${bottom - height(model[i] ?? 0)} ${left + (i + 1) * step},${
            bottom - height(model[i] ?? 0)}`);
    picture.append(element('polyline', {class: 'model', points: points.join(' ')}));
  }
  if (boundAfter !== null) {
    picture.append(
        element('line', {
          class: 'bound',
          x1: boundAfter(left, step),
          x2: boundAfter(left, step),
          y1: top - 8,
          y2: bottom
        }),
        label(boundAfter(left, step) + 4, top, 'bound'));
  }
  return picture;
}

function errorHistogram(profile, unit) {
  const bins = binsOf(profile.errors), limit = profile.limit;
  const place = limit > 0 ? Math.log2(limit) - profile.errors.first + 1 : 1;
  const isInside = place >= 0 && place <= bins.length;
  const picture = histogramPicture(bins, {
    title: 'Sizes of the errors',
    isBad: (bin) => bin.from >= limit && bin.from > 0 || bin.from === Infinity,
    boundAfter: isInside ? (left, step) => left + place * step : null
  });
  picture.append(label(500, 210, `${unit} →`, {'text-anchor': 'end', class: 'axis-title'}));
  return figure('Errors by size', picture, {
    name: 'errors-histogram',
    note: 'Elements in each power of two; counts on a logarithmic scale.',
    rows: () => bins.map(
        ({from, to, count}) => ({from, to: Number.isFinite(to) ? to : null, elements: count}))
  });
}

function ulpHistogram(profile) {
  const bins = binsOf(profile.ulps, '0'), model = profile.model ?? null;
  const picture = histogramPicture(bins, {
    title: 'ULP beside the model',
    isBad: (bin) => bin.from === Infinity ||
        (model !== null && bin.from > 0 && (model[bins.indexOf(bin)] ?? 0) < 1e-3),
    model
  });
  picture.append(label(
      500, 210, 'ULP from the expected number →', {'text-anchor': 'end', class: 'axis-title'}));
  return figure('ULP beside the model', picture, {
    name: 'ulps-histogram',
    note: model ?
        'Line: as many as there would be were roundings independent and as large as they can be (Higham and Mary 2019). Bars of the other colour lie where the model has next to none.' :
        'Nothing was compared with the data, so there is no model to expect anything.',
    rows: () => bins.map(({from, to, count}, i) => ({
                           from,
                           to: Number.isFinite(to) ? to : null,
                           elements: count,
                           ...(model ? {model: model[i] ?? 0} : {})
                         }))
  });
}
