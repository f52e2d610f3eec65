// Build elements from text that nobody vouches for: values become text nodes, never markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'g', 'rect', 'line', 'path', 'circle', 'text', 'title']);

export function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export const byId = (id) => document.getElementById(id);

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });

// An unknown value is a dash, never 0. Whole numbers too large for JavaScript arrive as digits.
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return /^-?\d+$/.test(value) ? whole.format(BigInt(value)) : value;
  return Number.isInteger(value) ? whole.format(value) : short.format(value);
}

export function percent(ratio) {
  return typeof ratio === 'number' ? `${(ratio * 100).toFixed(1)} %` : '–';
}

export function moment(text) {
  return text ? text.replace('T', ' ').replace(/(:\d\d)(\.\d+)?Z$/, '$1') : '–';
}

export function interval(start, end) {
  const [from, to] = [moment(start), moment(end)];
  return from.slice(0, 10) === to.slice(0, 10) ? `${from} to ${to.slice(11)}` : `${from} to ${to}`;
}

// Times of records without a calendar: lengths since their own start, never a date.
export function sinceStart(text) {
  const seconds = Math.round(Date.parse(text) / 1000);
  const two = (value) => String(value).padStart(2, '0');
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

// A contract's description: its first paragraph at once, the rest on request.
export function prose(text) {
  const [first, ...rest] = text.split(/\n\s*\n/);
  return rest.length ? [`${first} `, el('details', {}, el('summary', {}, 'more '), rest.join('\n\n'))] : [first];
}

export const day = (text) => (text ? text.slice(0, 10) : '–');

export function cell(value) {
  if (value === null || value === undefined) return el('span', { class: 'unknown', title: 'unknown (NULL)' }, '–');
  if (typeof value === 'object') return JSON.stringify(value);
  return String(value);
}

const NUMERIC = /^(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|U\w*INT\w*|FLOAT|DOUBLE|DECIMAL.*)$/;

export const isNumeric = (type) => NUMERIC.test(type ?? '');

// columns: [{name, type, label?, show?}]; rows: objects by column name.
export function table(columns, rows, caption) {
  const side = (column) => (isNumeric(column.type) ? 'num' : null);
  return el('table', {},
    el('caption', { class: 'sr' }, caption),
    el('thead', {}, el('tr', {}, columns.map((column) =>
      el('th', { scope: 'col', class: side(column), title: column.title }, column.label ?? column.name)))),
    el('tbody', {}, rows.map((row) => el('tr', {}, columns.map((column) =>
      el('td', { class: side(column) }, column.show ? column.show(row[column.name], row) : cell(row[column.name])))))));
}
