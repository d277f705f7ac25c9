// Pictures: scales, axes, and what all figures share. Colours are classes of the style sheet, so
// that light and dark need no drawing again.

// A scale from numbers to places, by the logarithm or not, with ticks.
function scale(low, high, from, to, isLog = false) {
  const f = isLog ? Math.log10 : (x) => x;
  const a = f(low), b = f(high) === f(low) ? f(low) + 1 : f(high);
  const place = (value) => from + ((f(value) - a) / (b - a)) * (to - from);
  place.ticks = isLog ? logTicks(low, high) : linearTicks(low, high);
  return place;
}

function linearTicks(low, high, count = 6) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k)
    ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  if (high / low < 3) return linearTicks(low, high);
  const decades = Math.log10(high / low);
  const marks = decades > 3 ? [1] : decades > 1.3 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
    for (const mark of marks) {
      const tick = Number((mark * 10 ** e).toPrecision(6));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

function drawing(width, height, label, ...children) {
  return element(
      'svg',
      {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': visible(label)},
      children);
}

function label(x, y, text, attributes = {}) {
  return element('text', {x, y, ...attributes}, text);
}

function xAxis(place, y, from, to, title, top, format = (v) => digits(v, 3)) {
  return element(
      'g', {class: 'axis'}, element('line', {x1: from, x2: to, y1: y, y2: y}),
      place.ticks.map(
          (tick) =>
              [element('line', {class: 'grid', x1: place(tick), x2: place(tick), y1: top, y2: y}),
               label(place(tick), y + 15, format(tick), {'text-anchor': 'middle'})]),
      label((from + to) / 2, y + 32, title, {class: 'axis-title', 'text-anchor': 'middle'}));
}

function yAxis(place, x, from, to, title, right, format = (v) => digits(v, 3)) {
  return element(
      'g', {class: 'axis'}, element('line', {x1: x, x2: x, y1: from, y2: to}),
      place.ticks.map(
          (tick) =>
              [element('line', {class: 'grid', x1: x, x2: right, y1: place(tick), y2: place(tick)}),
               label(x - 6, place(tick) + 4, format(tick), {'text-anchor': 'end'})]),
      label(0, 0, title, {
        class: 'axis-title',
        'text-anchor': 'middle',
        transform: `translate(${x - 44} ${(from + to) / 2}) rotate(-90)`
      }));
}

const MOST_TABLE_ROWS = 500;

function tableOf(rows) {
  if (rows.length === 0) return element('p', {class: 'quiet'}, 'No numbers.');
  const keys = Object.keys(rows[0]);
  const more = rows.length - MOST_TABLE_ROWS;
  return element(
      'div', {class: 'numbers'},
      element(
          'table', {},
          element(
              'thead', {},
              element('tr', {}, keys.map((key) => element('th', {scope: 'col'}, key)))),
          element(
              'tbody', {},
              rows.slice(0, MOST_TABLE_ROWS)
                  .map(
                      (row) => element(
                          'tr', {},
                          keys.map(
                              (key) => element(
                                  'td', {class: typeof row[key] === 'number' ? 'number' : null},
                                  typeof row[key] === 'number' ? digits(row[key], 5) :
                                                                 row[key] ?? '')))))),
      more > 0 ? element('p', {class: 'quiet'}, `${whole(more)} more in the CSV`) : null);
}

// A picture with its title, what it says in words, and the numbers behind it. `rows()`: objects.
function figure(title, picture, {name, rows, note = null, legend = null}) {
  const place = element('div');
  const toggle = element(
      'button', {
        type: 'button',
        'aria-expanded': 'false',
        click: () => {
          const isOpen = place.childElementCount > 0;
          place.replaceChildren(...(isOpen ? [] : [tableOf(rows())]));
          toggle.setAttribute('aria-expanded', String(!isOpen));
        }
      },
      'Numbers');
  return element(
      'figure', {'data-name': name},
      element(
          'figcaption', {}, element('h3', {}, title),
          element(
              'span', {class: 'tools'}, toggle,
              element(
                  'button',
                  {type: 'button', click: () => download(`${name}.csv`, 'text/csv', csvOf(rows()))},
                  'CSV'),
              element(
                  'button', {
                    type: 'button',
                    click: () => download(
                        `${name}.json`, 'application/json', JSON.stringify(rows(), null, 1))
                  },
                  'JSON'))),
      note ? element('p', {class: 'note'}, note) : null, legend,
      element('div', {class: 'picture'}, picture), place);
}

// How strongly an error is painted: faintly within its bound, strongly beyond. One is the bound.
function strength(size) {
  if (size === 0) return 0;
  return size <= 1 ? 0.06 + 0.36 * size : Math.min(1, 0.62 + 0.38 * Math.log10(size) / 3);
}

// Errors on a scale of both signs: straight up to the bound at half its length, by the logarithm
// beyond. From -1 to 1; `most` is at an end.
function signedPlace(value, most) {
  const size = Math.abs(value), sign = Math.sign(value);
  if (most <= 1) return sign * size / Math.max(most, 1e-300);
  return sign * (size <= 1 ? 0.5 * size : 0.5 + 0.5 * Math.log(size) / Math.log(most));
}

// The share of its limit that an error is; where nothing is allowed, the error itself.
function overLimit(value, limit) {
  return value === null ? null : limit > 0 ? value / limit : value;
}
