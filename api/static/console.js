// The SQL box.

import { columns } from './charts.js';
import { Problem, query, queryPath } from './client.js';
import { byId, cell, el, isNumeric, moment, number, table } from './dom.js';

const SHOWN_ROWS = 1000;

function complain(problem) {
  const where = problem.line ? ` (line ${problem.line}, column ${problem.column})` : '';
  byId('sql-status').replaceChildren(el('span', { class: 'error' }, problem.message + where));
  byId('sql-result').replaceChildren();
  byId('sql-chart').hidden = true;
  const text = byId('sql-text');
  if (problem.position !== undefined) {
    // The server counts characters, a text area counts UTF-16 units.
    const at = [...text.value].slice(0, problem.position).join('').length;
    text.focus();
    text.setSelectionRange(at, at);
  }
}

// A chart of the answer: its first column along the bottom, one of its numbers upwards.
function chart(answer) {
  const [label, ...rest] = answer.columns;
  const numbers = rest.filter((column) => isNumeric(column.type)).map((column) => column.name);
  const place = byId('sql-chart');
  place.hidden = numbers.length === 0 || answer.rows.length < 2;
  if (place.hidden) return;
  const show = (value) => (label.type.startsWith('TIMESTAMP') ? moment(value) : String(value ?? '–'));
  const draw = (name) => place.querySelector('div').replaceChildren(columns(answer.rows, label.name, name, show));
  const choice = place.querySelector('select');
  choice.replaceChildren(...numbers.map((name) => el('option', {}, name)));
  choice.onchange = () => draw(choice.value);
  draw(numbers[0]);
}

async function run(event) {
  event.preventDefault();
  const sql = byId('sql-text').value;
  byId('sql-status').textContent = 'Running';
  byId('sql-csv').hidden = true;
  try {
    const answer = await query(sql, SHOWN_ROWS);
    const rows = `${number(answer.row_count)} ${answer.row_count === 1 ? 'row' : 'rows'}`;
    byId('sql-status').textContent = (answer.truncated ? `The first ${rows}; there are more` : rows)
      + `, ${number(answer.elapsed_ms)} ms, snapshot ${answer.snapshot}`;
    const columns = answer.columns.map((column) => ({ ...column, title: column.type, show: cell }));
    byId('sql-result').replaceChildren(table(columns, answer.rows, 'Result'));
    chart(answer);
    byId('sql-result').focus({ preventScroll: true });
    byId('sql-csv').hidden = false;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    complain(problem);
  }
}

async function save(event) {
  event.preventDefault();
  const response = await fetch(queryPath(byId('sql-text').value), { headers: { Accept: 'text/csv' } });
  if (!response.ok) {
    complain(new Problem(await response.json()));
    return;
  }
  const address = URL.createObjectURL(await response.blob());
  el('a', { href: address, download: 'fleetmark.csv' }).click();
  URL.revokeObjectURL(address);
}

export function start() {
  byId('sql-form').addEventListener('submit', run);
  byId('sql-csv').addEventListener('click', save);
  byId('sql-text').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run(event);
  });
}
