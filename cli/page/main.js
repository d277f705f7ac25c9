// The views, the switch between light and dark, and the keys.

let table = null;

// The views that this report has something for, drawn when they are first looked at.
const VIEWS = [
  {id: 'cases', title: 'Cases', draw: casesView, when: () => true},
  {
    id: 'roofline',
    title: 'Roofline',
    draw: rooflineView,
    when: () => TIMED.some((i) => TIMINGS.gflops[i] !== null)
  },
  {id: 'times', title: 'Times', draw: timesView, when: () => NUM_TIMINGS > 0},
  {
    id: 'ratios',
    title: 'Ratio to the baseline',
    draw: () => ratiosView(ratiosOfBaselines(), 'Time over that of the baseline', 'ratios'),
    when: () => ratiosOfBaselines().length > 0
  },
  {
    id: 'scaling',
    title: 'Scaling',
    draw: scalingView,
    when: () => scalingGroups().length + isaGroups().length > 0
  },
  {
    id: 'compared',
    title: 'Side by side',
    draw: sideBySideView,
    when: () => DATA.reports.length > 1
  },
  {id: 'reports', title: 'About', draw: reportsView, when: () => true},
].filter((view) => view.when());

function casesView() {
  const panel = element(
      'aside', {
        id: 'detail',
        tabindex: '-1',
        'aria-label': 'The chosen case',
        keydown: (event) => {
          if (event.key === 'Escape') byId('cases').focus();
        }
      },
      element('p', {class: 'quiet'}, 'Choose a case to see all about it.'));
  table = new CaseTable((row) => panel.replaceChildren(detailOf(row)));
  return element(
      'section', {},
      NUM_CASES === 1 ?
          null :
          countsBar(
              (status) => table.choose('status', table.chosen.status === status ? '' : status)),
      element('div', {class: NUM_CASES === 1 ? 'split single' : 'split'}, table.node, panel));
}

function sideBySideView() {
  const ratios = ratiosOfReports();
  return element(
      'section', {}, changesView(),
      ratios.length > 0 ? ratiosView(ratios, 'Time over that in report A', 'ratios-side-by-side') :
                          null);
}

function showCase(row) {
  showView('cases');
  table.selectRow(row);
}

function showView(id) {
  for (const view of VIEWS) {
    const isShown = view.id === id;
    if (isShown && !view.node.hasChildNodes()) view.node.append(...guarded(() => [view.draw()]));
    view.node.hidden = !isShown;
    view.tab.setAttribute('aria-selected', String(isShown));
    view.tab.tabIndex = isShown ? 0 : -1;
  }
  if (id === 'cases') table?.draw();
}

function buildViews() {
  for (const view of VIEWS) {
    view.node = element('div', {
      role: 'tabpanel',
      id: `view-${view.id}`,
      'aria-labelledby': `tab-${view.id}`,
      hidden: true
    });
    view.tab = element(
        'button', {
          type: 'button',
          role: 'tab',
          id: `tab-${view.id}`,
          'aria-controls': `view-${view.id}`,
          click: () => showView(view.id)
        },
        view.title);
    byId('tabs').append(view.tab);
    byId('views').append(view.node);
  }
  byId('tabs').addEventListener('keydown', (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const at = VIEWS.findIndex((view) => view.tab.getAttribute('aria-selected') === 'true');
    const next = VIEWS[(at + step + VIEWS.length) % VIEWS.length];
    showView(next.id);
    next.tab.focus();
  });
}

function buildHeader() {
  const first = DATA.reports[0], context = first?.context ?? {};
  const command = context.convgrad?.command;
  byId('subtitle')
      .replaceChildren(
          element('span', {}, DATA.reports.map((_, i) => reportName(i)).join(' · ')),
          element('span', {class: 'quiet'}, [
            context.host, context.cpu_model, context.date,
            context.version && `convgrad ${context.version}`
          ].filter(Boolean).join(' · ')));
  document.title =
      visible(`${command && first.name !== command ? `${first.name} – ` : ''}convgrad report`)
          .slice(0, 120);
  for (const [i, report] of DATA.reports.entries()) {
    if (report.error)
      byId('messages')
          .append(element(
              'p', {class: 'error'},
              `${
                  DATA.reports.length > 1 ?
                      `Report ${reportLetter(i)} ` :
                      'The run '}ended with an error: ${report.error.message}`));
    for (const note of report.notes)
      byId('messages').append(element('p', {}, `${report.name}: ${note}`));
  }
  if (DATA.without_details > 0)
    byId('messages')
        .append(element(
            'p', {},
            `Of ${plural(DATA.without_details, 'case')} that ${
                DATA.without_details === 1 ?
                    'is' :
                    'are'} not right only the reason is here: the page has room for no more.`));
}

// As the system has it, or as chosen; a page opened as a file may have no memory of its own.
function buildTheme() {
  const button = byId('theme'), system = matchMedia('(prefers-color-scheme: dark)');
  const remembered = () => {
    try {
      return localStorage.getItem('convgrad-theme');
    } catch {
      return null;
    }
  };
  let chosen = remembered();
  const show = () => {
    const isDark = chosen ? chosen === 'dark' : system.matches;
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    button.textContent = isDark ? '☀ Light' : '☾ Dark';
    button.setAttribute('aria-label', isDark ? 'Show the page light' : 'Show the page dark');
  };
  button.addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem('convgrad-theme', chosen);
    } catch { /* it is forgotten with the page */
    }
    show();
  });
  system.addEventListener('change', show);
  show();
}

document.addEventListener('keydown', (event) => {
  if (event.target.matches('input, select, textarea') || event.ctrlKey || event.metaKey ||
      event.altKey) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (event.key === '/') {
    showView('cases');
    byId('search').focus();
    event.preventDefault();
  }
});
addEventListener('beforeprint', () => table?.drawAll());
addEventListener('afterprint', () => table?.draw());

buildTheme();
buildHeader();
buildViews();
showView('cases');
// A report of one case is that case; else what is wrong first.
if (NUM_CASES > 0 && (NUM_CASES === 1 || !CASES.right[table.rows[0]])) table.select(0);
