// A small picture for each usual mistake: what was wanted beside what was done.

const CELL = 18;

// A grid of cells; `mark(row, column)` gives the class and the text of each.
function cellGrid(x, y, rows, columns, mark, size = CELL) {
  const cells = [];
  for (let r = 0; r < rows; ++r) {
    for (let c = 0; c < columns; ++c) {
      const [kind, text] = mark(r, c);
      cells.push(element(
          'rect',
          {class: `cell ${kind}`, x: x + c * size, y: y + r * size, width: size, height: size}));
      if (text !== undefined && text !== '') {
        cells.push(label(
            x + (c + 0.5) * size, y + (r + 0.5) * size + 4, text,
            {'text-anchor': 'middle', class: 'cell-text'}));
      }
    }
  }
  return element('g', {}, cells);
}

function arrow(x, y, length = 24) {
  return element('path', {class: 'arrow', d: `M${x} ${y}h${length}m-6 -5l6 5l-6 5`});
}

// Two pictures of one size, right and wrong.
function beside(width, height, wanted, done, names = ['wanted', 'done']) {
  const gap = 44;
  return drawing(
      2 * width + gap, height + 20, `${names[0]}, beside it ${names[1]}`,
      label(width / 2, 12, names[0], {'text-anchor': 'middle', class: 'cell-text'}),
      label(width * 1.5 + gap, 12, names[1], {'text-anchor': 'middle', class: 'cell-text'}),
      element('g', {transform: 'translate(0 20)'}, wanted), arrow(width + 10, 20 + height / 2),
      element('g', {transform: `translate(${width + gap} 20)`}, done));
}

// The nine taps of a filter in another order.
function taps(order) {
  const grid = (of) =>
      cellGrid(1, 1, 3, 3, (r, c) => [of(r, c) === 0 ? 'strong' : 'tap', of(r, c) + 1]);
  return beside(3 * CELL + 2, 3 * CELL + 2, grid((r, c) => 3 * r + c), grid(order));
}

// The nine taps of a filter, of which some were left out.
function without(isLeftOut) {
  const grid = (of) =>
      cellGrid(1, 1, 3, 3, (r, c) => [of(r, c) ? 'pad' : 'tap', of(r, c) ? '' : 3 * r + c + 1]);
  return beside(3 * CELL + 2, 3 * CELL + 2, grid(() => false), grid(isLeftOut));
}

// A row of three pixels with two more on either side: one alone is the same by several mistakes.
function padded(before, after) {
  const isPad = (c) => c < 2 || c > 4;
  const row = (texts) => cellGrid(1, 1, 1, 7, (r, c) => [isPad(c) ? 'pad' : 'pixel', texts[c]]);
  return beside(7 * CELL + 2, CELL + 2, row('00abc00'), row(`${before}abc${after}`));
}

// A window of three by three over an image with one line of padding before it.
function windowAt(row, column, padded = 1) {
  const size = 6;
  const isPad = (r, c) => r < padded || c < padded;
  return element(
      'g', {},
      cellGrid(1, 1, size, size, (r, c) => [isPad(r, c) ? 'pad' : 'pixel', isPad(r, c) ? '0' : '']),
      element('rect', {
        class: 'window',
        x: 1 + column * CELL,
        y: 1 + row * CELL,
        width: 3 * CELL,
        height: 3 * CELL
      }));
}

function windows(row, column, padded) {
  return beside(6 * CELL + 2, 6 * CELL + 2, windowAt(0, 0), windowAt(row, column, padded));
}

// Which pixels the taps of one window fall on.
function steps(down, across, wrongDown, wrongAcross) {
  const grid = (a, b) => cellGrid(
      1, 1, 5, 5,
      (r, c) => [r % a === 0 && c % b === 0 && r / a < 3 && c / b < 3 ? 'strong' : 'pixel']);
  return beside(5 * CELL + 2, 5 * CELL + 2, grid(down, across), grid(wrongDown, wrongAcross));
}

// Axes, the outermost first, in two orders; lines join those of one name.
function axes(wanted, done) {
  const width = Math.max(...wanted.map((name) => name.length)) > 3 ? 62 : 34, gap = 8, height = 24;
  const x = (i) => i * (width + gap) + 1;
  const boxes = (names, y) => names.map(
      (name, i) =>
          [element('rect', {class: 'cell tap', x: x(i), y, width, height, rx: 3}),
           label(x(i) + width / 2, y + 16, name, {'text-anchor': 'middle', class: 'cell-text'})]);
  const total = wanted.length * (width + gap) + 62;
  const lines = wanted.map((name, i) => {
    const k = done.indexOf(name);
    return k < 0 ? null : element('line', {
      class: k === i ? 'same' : 'crossed',
      x1: x(i) + width / 2,
      x2: x(k) + width / 2,
      y1: height + 2,
      y2: 66
    });
  });
  return drawing(
      total, 94, `${wanted.join(' ')}, done as ${done.join(' ')}`, boxes(wanted, 1), lines,
      boxes(done, 67), label(total - 58, 17, 'wanted', {class: 'cell-text'}),
      label(total - 58, 84, 'done', {class: 'cell-text'}));
}

// The images of a batch, each with its number; '' is one that is not there.
function batch(numbers) {
  const stack = (list) => list.map(
      (text, i) =>
          [element('rect', {
             class: `cell ${text === '' ? 'pad' : 'tap'}`,
             x: 1 + i * 26,
             y: 1 + i * 5,
             width: 24,
             height: 32
           }),
           label(13 + i * 26, 22 + i * 5, text, {'text-anchor': 'middle', class: 'cell-text'})]);
  return beside(80, 46, stack(['0', '1', '2']), stack(numbers));
}

// A letter that has no symmetry, moved as the image was.
function image(transform) {
  const letter = (t) =>
      [element('rect', {class: 'cell pixel', x: 1, y: 1, width: 54, height: 54}),
       element('path', {class: 'letter', d: 'M18 46V12H40M18 28H34', transform: t})];
  return beside(56, 56, letter(''), letter(transform));
}

// A number and what became of it, on a line.
function scaled(factor, words) {
  const place = scale(-1.3, 2.6, 10, 290);
  const dot = (value, kind, text, y) =>
      [element('circle', {class: kind, cx: place(value), cy: 40, r: 5}),
       label(
           place(value), y, text,
           {'text-anchor': value > 2 ? 'end' : 'middle', class: 'cell-text'})];
  const done = Math.max(-1.2, Math.min(2.5, factor));
  return drawing(
      300, 76, words, element('line', {class: 'line', x1: 10, x2: 290, y1: 40, y2: 40}),
      element('line', {class: 'line', x1: place(0), x2: place(0), y1: 34, y2: 46}),
      label(place(0), 62, '0', {'text-anchor': 'middle', class: 'cell-text'}),
      dot(1, 'dot wanted', 'wanted', 62), dot(done, 'dot done', words, 24));
}

// The bits of a number, those that were lost struck out.
function bits(kept, total = 23, words = 'lost') {
  const width = 9, lost = total - kept;
  const box = (x, count, kind, text) =>
      [element('rect', {class: `cell ${kind}`, x, y: 20, width: count * width, height: 24}),
       label(x + count * width / 2, 36, text, {'text-anchor': 'middle', class: 'cell-text'})];
  const from = 1 + 9 * width + kept * width;
  return drawing(
      Math.max(300, 12 + 9 * width + total * width), 64, `${lost} bits ${words}`,
      box(1, 1, 'pixel', '±'), box(1 + width, 8, 'pixel', 'exponent'),
      box(1 + 9 * width, kept, 'tap', 'fraction'),
      lost > 0 ?
          [
            box(from, lost, 'pad', words),
            element('line', {class: 'crossed', x1: from, x2: from + lost * width, y1: 44, y2: 20})
          ] :
          null);
}

// A part of the result that holds something else.
function block(text) {
  const grid = (hole) => cellGrid(
      1, 1, 4, 6,
      (r, c) => [hole && r > 1 && c > 2 ? 'pad' : 'tap', hole && r > 1 && c > 2 ? text : '']);
  return beside(6 * CELL + 2, 4 * CELL + 2, grid(false), grid(true));
}

function curve(points, words) {
  return drawing(
      180, 84, words, element('line', {class: 'line', x1: 10, x2: 170, y1: 50, y2: 50}),
      element('path', {class: 'line dashed', d: 'M10 74L170 10'}),
      element('path', {class: 'arrow', d: points}),
      label(176, 80, words, {'text-anchor': 'end', class: 'cell-text'}));
}

const MISTAKES = {
  'filter-flipped': () => taps((r, c) => 8 - 3 * r - c),
  'filter-rows-flipped': () => taps((r, c) => 3 * (2 - r) + c),
  'filter-columns-flipped': () => taps((r, c) => 3 * r + 2 - c),
  'taps-transposed': () => taps((r, c) => 3 * c + r),
  'pads-same': () => windows(1, 1),
  'pads-symmetric': () => windows(0, 1),
  'pads-swapped': () => windows(1, 1, 0),
  'padding-ignored': () => windows(1, 1),
  'pads-first': () => windows(0, 0, 2),
  'window-offset': () => windows(1, 0),
  'shifted': () => windows(0, 2),
  'edge-padding': () => padded('aa', 'cc'),
  'reflect-padding': () => padded('cb', 'ba'),
  'symmetric-padding': () => padded('ba', 'cb'),
  'wrap-padding': () => padded('bc', 'ab'),
  'data-offset': () => axes(['x0', 'x1', 'x2', 'x3'], ['?', 'x0', 'x1', 'x2']),
  'dilation-ignored': () => steps(2, 2, 1, 1),
  'dilation-added': () => steps(1, 1, 2, 2),
  'dilations-swapped': () => steps(1, 2, 2, 1),
  'strides-swapped': () => steps(1, 2, 2, 1),
  'data-format': () => axes(['N', 'H', 'W', 'C'], ['N', 'C', 'H', 'W']),
  'input-nchw': () => axes(['N', 'H', 'W', 'C'], ['N', 'C', 'H', 'W']),
  'output-nchw': () => axes(['N', 'H', 'W', 'C'], ['N', 'C', 'H', 'W']),
  'input-nhwc': () => axes(['N', 'C', 'H', 'W'], ['N', 'H', 'W', 'C']),
  'output-nhwc': () => axes(['N', 'C', 'H', 'W'], ['N', 'H', 'W', 'C']),
  'filter-oihw': () => axes(['H', 'W', 'I', 'O'], ['O', 'I', 'H', 'W']),
  'filter-ohwi': () => axes(['H', 'W', 'I', 'O'], ['O', 'H', 'W', 'I']),
  'filter-hwoi': () => axes(['H', 'W', 'I', 'O'], ['H', 'W', 'O', 'I']),
  'filter-depthwise-oihw': () => axes(['H', 'W', 'C', 'M'], ['C', 'M', 'H', 'W']),
  'filter-multiplier-order': () => axes(['H', 'W', 'C', 'M'], ['H', 'W', 'M', 'C']),
  'channels-transposed': () => axes(['H', 'W', 'I', 'O'], ['H', 'W', 'O', 'I']),
  'fortran-order': () => axes(['N', 'H', 'W', 'C'], ['C', 'W', 'H', 'N']),
  'multiplier-order': () =>
      axes(['c0m0', 'c0m1', 'c1m0', 'c1m1'], ['c0m0', 'c1m0', 'c0m1', 'c1m1']),
  'group-order': () => axes(['g0c0', 'g0c1', 'g1c0', 'g1c1'], ['g0c0', 'g1c0', 'g0c1', 'g1c1']),
  'channels-reversed': () => axes(['c0', 'c1', 'c2'], ['c2', 'c1', 'c0']),
  'operands-swapped': () => axes(['input', 'filter'], ['filter', 'input']),
  'other-operation': () => axes(['this op'], ['another']),
  'height-width-order': () => axes(['N', 'H', 'W', 'C'], ['N', 'W', 'H', 'C']),
  'first-group': () => axes(['group 0', 'group 1'], ['group 0', 'group 0']),
  'image-transposed': () => image('matrix(0 1 1 0 0 0)'),
  'image-flipped': () => image('matrix(1 0 0 -1 0 56)'),
  'image-repeated': () => batch(['0', '0', '0']),
  'image-missing': () => batch(['0', '1', '']),
  'images-exchanged': () => batch(['1', '0', '2']),
  'images-reversed': () => batch(['2', '1', '0']),
  'lost-update': () => batch(['0', '½', '2']),
  'tap-missing': () => without((r, c) => r === 1 && c === 2),
  'tail-dropped': () => without((r) => r === 2),
  'image-twice': () => batch(['0', '1', '2+2']),
  'sign-flipped': () => scaled(-1, 'times −1'),
  'counted-twice': () => scaled(2, 'times 2'),
  'halved': () => scaled(0.5, 'half'),
  'batch-mean': () => scaled(0.25, 'over the images'),
  'pixel-mean': () => scaled(0.1, 'over the pixels'),
  'batch-factor': () => scaled(2.5, 'times the images'),
  'scaled': () => scaled(1.6, 'times a factor'),
  'bias-added': () => scaled(1.6, 'plus a number'),
  'operands-rounded': () => bits(7, 23, 'lost before the sum'),
  'computed-narrow': () => bits(7, 23, 'lost in every step'),
  'result-rounded': () => bits(10, 23, 'lost at the end'),
  'result-truncated': () => bits(15, 23, 'cut off'),
  'narrow-sums': () => bits(10, 23, 'lost in the sums'),
  'partials-rounded': () => bits(7, 23, 'lost in partial sums'),
  'truncated-sums': () => bits(20, 23, 'cut off in the sums'),
  'stochastic-rounding': () => bits(22, 23, 'by chance'),
  'winograd': () => axes(['windows', 'sums'], ['tiles', 'transforms', 'sums']),
  'subnormals-flushed': () => curve('M10 74L70 50H110L170 10', 'flat around zero'),
  'rectified': () => curve('M10 50H90L170 18', 'flat below zero'),
  'relu6': () => curve('M10 50H90L140 24H170', 'flat below zero, flat above six'),
  'byte-swapped': () => axes(['byte 0', 'byte 1'], ['byte 1', 'byte 0']),
  'other-16-bits': () => axes(['float16'], ['bfloat16']),
  'unwritten-zeros': () => block('0'),
  'unwritten-nan': () => block('NaN'),
  'unwritten-constant': () => block('7'),
  'unwritten-garbage': () => block('?'),
  'summation-order': () => axes(['a', 'b', 'c'], ['b', 'c', 'a']),
};

// None for a mistake without one.
function pictureOfMistake(name) {
  // A pair, as pads-symmetric+filter-flipped, has the picture of its first.
  const first = name.split('+')[0];
  return Object.hasOwn(MISTAKES, first) ? MISTAKES[first]() : null;
}
