// The report as the page has it: columns of numbers, and words that they stand for.

const DATA = JSON.parse(byId('data').textContent);
const CASES = DATA.cases;
const NUM_CASES = CASES.name.length;
const TIMINGS = DATA.timings;
const NUM_TIMINGS = TIMINGS.row ? TIMINGS.row.length : 0;

// How a case may end, the worst first: a sign beside the word, so that nobody needs the colour.
const STATUSES = [
  ['FAILED', '✗', 'bad'], ['ERROR', '!', 'bad'], ['TIMEOUT', '…', 'bad'],
  ['SUSPECT', '?', 'doubtful'], ['PASSED', '✓', 'good'], ['RECORDED', '●', 'good'],
  ['KEPT', '○', 'good'], ['COMPUTED', '–', 'plain'], ['SKIPPED', '·', 'plain']
];
const STATUS_RANK = new Map(STATUSES.map(([name], rank) => [name, rank]));

function statusInfo(name) {
  return STATUSES[STATUS_RANK.has(name) ? STATUS_RANK.get(name) : 7];
}

// A word of a case: the operation, say.
function wordOf(column, row) {
  return DATA.words[column][CASES[column][row]];
}

function tagsOf(row) {
  const tags = wordOf('tags', row);
  return tags === '' ? [] : tags.split(' ');
}

// The place of a row's timing; none where the case was not timed.
const TIMING_OF_ROW = new Map();
for (let i = 0; i < NUM_TIMINGS; ++i) TIMING_OF_ROW.set(TIMINGS.row[i], i);

function problemLine(row) {
  return ['op', 'dtype', 'format', 'shape']
      .map((column) => wordOf(column, row))
      .filter(Boolean)
      .join(' ');
}

function reportName(report) {
  const {name, context} = DATA.reports[report];
  return name || context?.convgrad?.command || 'report';
}

// Short names of reports, by which the page tells them apart.
function reportLetter(report) {
  return String.fromCharCode(65 + report % 26) + (report >= 26 ? Math.floor(report / 26) : '');
}

// One row of the table with its words spelled out.
function caseRecord(row) {
  const timing = TIMING_OF_ROW.get(row);
  const record = {
    report: reportName(CASES.report[row]),
    name: CASES.name[row],
    status: wordOf('status', row),
    op: wordOf('op', row),
    dtype: wordOf('dtype', row),
    format: wordOf('format', row),
    shape: wordOf('shape', row),
    tags: wordOf('tags', row),
    threads: CASES.threads[row],
    ms: CASES.ms[row],
    reason: wordOf('reason', row),
    mistake: wordOf('mistake', row),
  };
  if (NUM_TIMINGS > 0) {
    for (const key
             of ['low', 'high', 'gflops', 'intensity', 'share', 'ratio', 'ratio_low',
                 'ratio_high']) {
      record[key] = timing === undefined ? null : TIMINGS[key][timing];
    }
  }
  return record;
}
