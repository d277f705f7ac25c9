'use strict';
// Text and elements. Whatever comes from a report becomes text nodes, never markup.

// Characters that hide, or that turn the text around them: shown by their number instead.
const HIDDEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function visible(text) {
  return String(text).replace(
      HIDDEN,
      (letter) => letter === '\n' ?
          letter :
          '⟨U+' + letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0') + '⟩');
}

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS =
    new Set(['svg', 'g', 'rect', 'circle', 'line', 'path', 'text', 'title', 'polyline', 'polygon']);

// An element with attributes and children; strings become text, functions listeners.
function element(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function')
      node.addEventListener(name, value);
    else
      node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === '') continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

// At most so many digits that count; "no number" for what JSON has no number for.
function digits(value, count = 4) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return 'no number';
  const number = Number(value);
  if (number === 0 || !Number.isFinite(number)) return String(number);
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-4)
    return number.toExponential(count - 1).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return String(Number(number.toPrecision(count)));
}

// How many times the limit an error is, in little room.
function times(value, count = 3) {
  return `${
      Math.abs(value) < 1e4 ?
          digits(value, count) :
          Number(value).toExponential(1).replace('e+', 'e').replace('-', '−')}×`;
}

function whole(value) {
  return Number(value).toLocaleString('en').replace(/,/g, '\u202f');
}

function plural(count, word) {
  return `${whole(count)} ${word}${count === 1 ? '' : 's'}`;
}

function milliseconds(value) {
  if (value === null || value === undefined) return '';
  if (value >= 1000) return `${digits(value / 1000, 3)} s`;
  if (value >= 1) return `${digits(value, 3)} ms`;
  return `${digits(value * 1000, 3)} µs`;
}

// A share of one, in words.
function percent(share, count = 3) {
  return share === null || share === undefined ? '' : `${digits(share * 100, count)} %`;
}

// A file that the browser saves.
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = element('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// A spreadsheet must take no cell for a formula.
function csvCell(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

// `rows`: objects of the same keys.
function csvOf(rows) {
  if (rows.length === 0) return '';
  const keys = Object.keys(rows[0]);
  return [keys, ...rows.map((row) => keys.map((key) => row[key]))]
      .map((cells) => cells.map(csvCell).join(',') + '\r\n')
      .join('');
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', {readonly: true, class: 'offscreen'});
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function copyButton(text) {
  const button = element(
      'button', {
        type: 'button',
        class: 'copy',
        click: async () => {
          const done = await copyText(text);
          button.textContent = done ? 'Copied' : 'Not copied';
          setTimeout(() => {
            button.textContent = 'Copy';
          }, 1500);
        }
      },
      'Copy');
  return button;
}

// The little window beside the pointer, or beside what has the focus.
function withTip(node, lines) {
  const show = (x, y) => {
    const tip = byId('tip');
    tip.replaceChildren(...lines().map((line) => element('div', {}, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top =
        `${Math.max(4, y + box.height + 22 > innerHeight ? y - box.height - 10 : y + 16)}px`;
  };
  const hide = () => {
    byId('tip').hidden = true;
  };
  node.addEventListener('pointermove', (event) => show(event.clientX, event.clientY));
  node.addEventListener('pointerleave', hide);
  node.addEventListener('focus', () => {
    const box = node.getBoundingClientRect();
    show(box.right, box.bottom);
  });
  node.addEventListener('blur', hide);
  return node;
}
