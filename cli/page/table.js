// The table of cases: filtered, sorted, and of its rows only those in sight are in the page.

const ROW_HEIGHT = 30;

const TABLE_COLUMNS = [
  {
    key: 'status',
    title: 'Status',
    width: '6.9rem',
    value: (row) => STATUS_RANK.get(wordOf('status', row)) ?? 9
  },
  {
    key: 'report',
    title: 'Report',
    width: '4.5rem',
    value: (row) => CASES.report[row],
    when: () => DATA.reports.length > 1
  },
  {key: 'name', title: 'Case', width: 'minmax(7rem, 3fr)', value: (row) => CASES.name[row]},
  // A column that is the same of all cases takes no room.
  {
    key: 'op',
    title: 'Operation',
    width: 'minmax(5rem, 1.6fr)',
    value: (row) => wordOf('op', row),
    when: () => DATA.words.op.length > 1
  },
  {
    key: 'dtype',
    title: 'Type',
    width: '4.8rem',
    value: (row) => wordOf('dtype', row),
    when: () => DATA.words.dtype.length > 1
  },
  {
    key: 'tags',
    title: 'Tags',
    width: 'minmax(3rem, 1fr)',
    value: (row) => wordOf('tags', row),
    when: () => DATA.words.tags.some(Boolean)
  },
  {
    key: 'threads',
    title: 'Threads',
    width: '5rem',
    value: (row) => CASES.threads[row],
    when: () => NUM_TIMINGS > 0
  },
  {key: 'ms', title: 'Time', width: '4.6rem', value: (row) => CASES.ms[row] ?? -1},
  {
    key: 'reason',
    title: 'Why',
    width: 'minmax(5rem, 2.4fr)',
    value: (row) => wordOf('mistake', row) || wordOf('reason', row),
    when: () => DATA.words.reason.some(Boolean) && CASES.right.includes(0)
  },
].filter((column) => !column.when || column.when());

// The choices that narrow the table; '' is all.
const FILTERS = [
  {
    key: 'status',
    title: 'Status',
    words: () => DATA.words.status,
    of: (row) => [wordOf('status', row)]
  },
  {key: 'op', title: 'Operation', words: () => DATA.words.op, of: (row) => [wordOf('op', row)]},
  {key: 'dtype', title: 'Type', words: () => DATA.words.dtype, of: (row) => [wordOf('dtype', row)]},
  {
    key: 'tag',
    title: 'Tag',
    words: () => [...new Set(DATA.words.tags.flatMap((tags) => tags.split(' ')))],
    of: tagsOf
  },
  {
    key: 'mistake',
    title: 'Mistake',
    words: () => DATA.words.mistake,
    of: (row) => [wordOf('mistake', row)]
  },
];

const TIMES = [
  ['', 'any'], ['0', '1 ms or more'], ['1', '10 ms or more'], ['2', '100 ms or more'],
  ['3', '1 s or more']
];

class CaseTable {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.rows = [];
    this.current = -1;  // a place among this.rows
    this.sort = {key: null, down: false};
    this.chosen = {};
    this.text = '';
    this.build();
    this.update();
  }

  build() {
    this.search = element('input', {
      type: 'search',
      id: 'search',
      placeholder: 'name, reason, shape',
      'aria-label': 'Search cases',
      input: () => {
        this.text = this.search.value.toLowerCase();
        this.update();
      }
    });
    this.filters = element(
        'div', {class: 'filters'}, this.search, FILTERS.map((filter) => this.choiceOf(filter)),
        this.timeChoice(),
        element('button', {type: 'button', id: 'clear', click: () => this.clear()}, 'Clear'));
    this.said = element('p', {class: 'said', role: 'status', 'aria-live': 'polite'});
    const columns = TABLE_COLUMNS.map((column) => column.width).join(' ');
    this.head = element(
        'div', {class: 'row head', role: 'row'},
        TABLE_COLUMNS.map(
            (column) => element(
                'div', {role: 'columnheader', 'data-key': column.key, 'aria-sort': 'none'},
                element(
                    'button', {type: 'button', click: () => this.sortBy(column.key)},
                    column.title))));
    this.body = element('div', {class: 'rows', role: 'rowgroup'});
    this.spacer = element('div', {class: 'spacer'}, this.body);
    this.viewport = element(
        'div', {
          class: 'viewport',
          id: 'cases',
          tabindex: '0',
          role: 'grid',
          'aria-label': 'Cases',
          scroll: () => this.draw(),
          keydown: (event) => this.onKey(event)
        },
        this.head, this.spacer);
    this.viewport.style.setProperty('--columns', columns);
    this.node = element(
        'section', {class: 'cases'}, this.filters, this.said, this.viewport,
        element(
            'p', {class: 'tools'},
            element(
                'button', {
                  type: 'button',
                  click: () => download('cases.csv', 'text/csv', csvOf(this.records()))
                },
                'CSV of these'),
            element(
                'button', {
                  type: 'button',
                  click: () => download(
                      'cases.json', 'application/json', JSON.stringify(this.records(), null, 1))
                },
                'JSON of these')));
    new ResizeObserver(() => this.draw()).observe(this.viewport);
  }

  choiceOf(filter) {
    const words = filter.words().filter((word) => word !== '');
    if (words.length < 2 && filter.key !== 'status') return null;
    if (words.length === 0) return null;
    const order = filter.key === 'status' ?
        (a, b) => (STATUS_RANK.get(a) ?? 9) - (STATUS_RANK.get(b) ?? 9) :
        undefined;
    const select = element(
        'select', {
          'data-filter': filter.key,
          change: () => {
            this.chosen[filter.key] = select.value;
            this.update();
          }
        },
        element('option', {value: ''}, 'all'),
        [...words].sort(order).map((word) => element('option', {value: word}, word)));
    return element('label', {}, element('span', {}, filter.title), select);
  }

  timeChoice() {
    const select = element(
        'select', {
          'data-filter': 'time',
          change: () => {
            this.chosen.time = select.value;
            this.update();
          }
        },
        TIMES.map(([value, title]) => element('option', {value}, title)));
    return element('label', {}, element('span', {}, 'Time'), select);
  }

  choose(key, value) {
    this.chosen[key] = value;
    const select = this.filters.querySelector(`[data-filter="${key}"]`);
    if (select) select.value = value;
    this.update();
  }

  clear() {
    this.chosen = {};
    this.text = this.search.value = '';
    for (const select of this.filters.querySelectorAll('select')) select.value = '';
    this.update();
  }

  sortBy(key) {
    const isSame = this.sort.key === key;
    this.sort = {key, down: isSame ? !this.sort.down : key === 'ms'};
    this.update();
  }

  shows(row) {
    for (const filter of FILTERS) {
      const wanted = this.chosen[filter.key];
      if (wanted && !filter.of(row).includes(wanted)) return false;
    }
    if (this.chosen.time && !(CASES.ms[row] >= 10 ** Number(this.chosen.time))) return false;
    if (this.text === '') return true;
    return CASES.name[row].toLowerCase().includes(this.text) || [
      'reason', 'shape', 'op', 'mistake', 'tags'
    ].some((column) => wordOf(column, row).toLowerCase().includes(this.text));
  }

  update() {
    const selected = this.current >= 0 ? this.rows[this.current] : -1;
    this.rows = [];
    for (let row = 0; row < NUM_CASES; ++row)
      if (this.shows(row)) this.rows.push(row);
    this.sortRows();
    this.current = this.rows.indexOf(selected);
    for (const cell of this.head.children) {
      cell.setAttribute(
          'aria-sort',
          cell.dataset.key !== this.sort.key ? 'none' :
              this.sort.down                 ? 'descending' :
                                               'ascending');
    }
    this.viewport.setAttribute('aria-rowcount', String(this.rows.length + 1));
    this.spacer.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    const leftOut = DATA.reports.reduce((sum, report) => sum + report.left_out, 0);
    this.said.textContent = `${whole(this.rows.length)} of ${plural(NUM_CASES, 'case')}` +
        (leftOut > 0 ? `; ${whole(leftOut)} more that are right are counted but not listed` : '');
    this.draw();
  }

  // Without a choice: what is not right first, else as in the report.
  sortRows() {
    const column = TABLE_COLUMNS.find((one) => one.key === this.sort.key);
    if (!column) {
      this.rows.sort((a, b) => CASES.right[a] - CASES.right[b] || a - b);
      return;
    }
    const values = new Map(this.rows.map((row) => [row, column.value(row)]));
    const sign = this.sort.down ? -1 : 1;
    this.rows.sort((a, b) => {
      const x = values.get(a), y = values.get(b);
      return x < y ? -sign : x > y ? sign : a - b;
    });
  }

  draw() {
    const top = Math.max(0, this.viewport.scrollTop - ROW_HEIGHT);
    const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - 5);
    const last =
        Math.min(this.rows.length, first + Math.ceil(this.viewport.clientHeight / ROW_HEIGHT) + 12);
    this.body.style.transform = `translateY(${first * ROW_HEIGHT}px)`;
    const rows = [];
    for (let place = first; place < last; ++place) rows.push(this.rowAt(place));
    this.body.replaceChildren(...rows);
  }

  // All rows, or the first thousand, for paper.
  drawAll() {
    this.body.style.transform = '';
    this.body.replaceChildren(...this.rows.slice(0, 1000).map((_, place) => this.rowAt(place)));
  }

  rowAt(place) {
    const row = this.rows[place];
    const isCurrent = place === this.current;
    if (isCurrent) this.viewport.setAttribute('aria-activedescendant', `row-${row}`);
    return element(
        'div', {
          class: isCurrent ? 'row current' : 'row',
          role: 'row',
          id: `row-${row}`,
          'aria-rowindex': place + 2,
          'aria-selected': String(isCurrent),
          'data-row': row,
          click: () => this.select(place)
        },
        TABLE_COLUMNS.map(
            (column) =>
                element('div', {role: 'gridcell', class: column.key}, this.cell(column.key, row))));
  }

  cell(key, row) {
    if (key === 'status') return statusBadge(wordOf('status', row));
    if (key === 'report') return reportLetter(CASES.report[row]);
    if (key === 'name') return element('span', {title: visible(CASES.name[row])}, CASES.name[row]);
    if (key === 'ms') return milliseconds(CASES.ms[row]);
    if (key === 'threads') return String(CASES.threads[row]);
    if (key === 'reason') return wordOf('mistake', row) || wordOf('reason', row);
    return wordOf(key, row);
  }

  select(place, moves = false) {
    if (place < 0 || place >= this.rows.length) return;
    this.current = place;
    if (moves) {
      const top = place * ROW_HEIGHT, height = this.viewport.clientHeight - 2 * ROW_HEIGHT;
      if (top < this.viewport.scrollTop) this.viewport.scrollTop = top;
      if (top > this.viewport.scrollTop + height) this.viewport.scrollTop = top - height;
    }
    this.draw();
    this.onSelect(this.rows[place]);
  }

  selectRow(row) {
    let place = this.rows.indexOf(row);
    if (place < 0) {
      this.clear();
      place = this.rows.indexOf(row);
    }
    this.select(place, true);
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.viewport.clientHeight / ROW_HEIGHT) - 2);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page};
    if (event.key in steps) {
      this.select(
          Math.max(0, Math.min(this.rows.length - 1, this.current + steps[event.key])), true);
    } else if (event.key === 'Home') {
      this.select(0, true);
    } else if (event.key === 'End') {
      this.select(this.rows.length - 1, true);
    } else if (event.key === 'Enter') {
      if (this.current < 0) this.select(0, true);
      byId('detail').focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  records() {
    return this.rows.map(caseRecord);
  }
}

function statusBadge(status) {
  const [, sign, kind] = statusInfo(status);
  return element(
      'span', {class: `status ${kind}`},
      element('span', {class: 'sign', 'aria-hidden': 'true'}, sign), status);
}

// How many ended how, in all reports or one: a bar, and buttons that narrow the table.
function countsBar(onChoose) {
  const counts = new Map();
  for (const report of DATA.reports) {
    for (const [status, count] of Object.entries(report.counts))
      counts.set(status, (counts.get(status) ?? 0) + count);
  }
  const order =
      [...counts.keys()].sort((a, b) => (STATUS_RANK.get(a) ?? 9) - (STATUS_RANK.get(b) ?? 9));
  const bar = element('div', {class: 'bar', 'aria-hidden': 'true'}, order.map((status) => {
    const part = element('div', {class: statusInfo(status)[2]});
    part.style.flexGrow = String(counts.get(status));
    return part;
  }));
  return element(
      'section', {class: 'counts', 'aria-label': 'How the cases ended'},
      order.map(
          (status) => element(
              'button', {type: 'button', 'data-status': status, click: () => onChoose(status)},
              statusBadge(status), element('strong', {}, whole(counts.get(status))))),
      bar);
}
