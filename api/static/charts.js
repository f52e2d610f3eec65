// Small charts as SVG. Each bar carries its values as a title; a table beside it says the same.

import { day, el, number, percent } from './dom.js';

// Drawn at the size it is shown, so that its text keeps its size.
const WIDTH = Math.min(544, document.documentElement.clientWidth - 32);
const LEFT = 44;
const BOTTOM = 24;

function axis(height, top) {
  return [0, 0.25, 0.5, 0.75, 1].map((tick) => {
    const y = top + (1 - tick) * height;
    return el('g', { class: 'axis' },
      el('line', { x1: LEFT, x2: WIDTH, y1: y, y2: y }),
      el('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, `${tick * 100} %`));
  });
}

// rows: [{day_ts, lower, upper, coverage}], one per day.
export function intervals(rows, label) {
  const height = 180;
  const top = 10;
  const step = (WIDTH - LEFT) / rows.length;
  const y = (ratio) => top + (1 - ratio) * height;
  const marked = new Set([0, Math.floor((rows.length - 1) / 2), rows.length - 1]);
  return el('svg', { class: 'chart', viewBox: `0 0 ${WIDTH} ${top + height + BOTTOM}`, role: 'img', 'aria-label': label },
    axis(height, top),
    rows.map((row, index) => {
      const width = Math.max(1, Math.min(step * 0.7, 36));
      const known = row.lower !== null && row.upper !== null;
      const at = LEFT + (index + 0.5) * step;
      return el('g', {},
        el('title', {}, `${day(row.day_ts)}: ${percent(row.lower)} to ${percent(row.upper)}, coverage ${percent(row.coverage)}`),
        el('rect', { class: 'hit', x: LEFT + index * step, y: top, width: step, height }),
        known ? el('rect', { class: 'band', x: at - width / 2, width, y: y(row.upper), height: Math.max(2, y(row.lower) - y(row.upper)), rx: 2 }) : null,
        known ? el('line', { class: 'floor', x1: at - width / 2, x2: at + width / 2, y1: y(row.lower), y2: y(row.lower) }) : null,
        marked.has(index) ? el('text', { class: 'label', x: at, y: top + height + 17, 'text-anchor': 'middle' }, day(row.day_ts).slice(5)) : null);
    }));
}

// One row's quartiles on a scale from 0 to 1.
export function quartiles(q1, median, q3) {
  if ([q1, median, q3].some((value) => typeof value !== 'number')) return el('span', { class: 'unknown' }, '–');
  return el('svg', { class: 'strip', viewBox: '0 0 200 18', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${percent(q1)}, ${percent(median)}, ${percent(q3)}` },
    el('line', { class: 'rail', x1: 0, x2: 200, y1: 9, y2: 9 }),
    el('rect', { class: 'band', x: q1 * 200, y: 4, width: Math.max(1, (q3 - q1) * 200), height: 10, rx: 2 }),
    el('rect', { class: 'tick', x: median * 200 - 1.5, y: 2, width: 3, height: 14 }));
}

export function meter(ratio) {
  if (typeof ratio !== 'number') return el('span', { class: 'unknown' }, '–');
  return el('span', { class: 'meter' },
    el('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      el('rect', { class: 'rail', width: 100, height: 8, rx: 2 }),
      el('rect', { class: 'fill', width: Math.max(0, Math.min(1, ratio)) * 100, height: 8, rx: 2 })),
    percent(ratio));
}

const MOST_BARS = 200;

// The rows of any answer as bars from zero, in its order: what a column says, by the first column.
export function columns(rows, label, name, show) {
  const some = rows.slice(0, MOST_BARS);
  const values = some.map((row) => (typeof row[name] === 'number' ? row[name] : null));
  const top = Math.max(0, ...values);
  const bottom = Math.min(0, ...values);
  const height = 180;
  const y = (value) => 10 + ((top - value) / (top - bottom || 1)) * height;
  const step = (WIDTH - LEFT) / some.length;
  const marked = new Set([0, Math.floor((some.length - 1) / 2), some.length - 1]);
  return el('svg', { class: 'chart', viewBox: `0 0 ${WIDTH} ${10 + height + BOTTOM}`, role: 'img', 'aria-label': `${name} by ${label}` },
    [...new Set([bottom, 0, top])].map((tick) => el('g', { class: 'axis' },
      el('line', { x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }),
      el('text', { x: LEFT - 8, y: y(tick) + 4, 'text-anchor': 'end' }, axisNumber.format(tick)))),
    some.map((row, index) => el('g', {},
      el('title', {}, `${show(row[label])}: ${number(values[index])}`),
      el('rect', { class: 'hit', x: LEFT + index * step, y: 10, width: step, height }),
      values[index] === null ? null : el('rect', { class: 'band', x: LEFT + (index + 0.15) * step, width: Math.max(0.8, step * 0.7),
        y: y(Math.max(0, values[index])), height: Math.max(1, y(Math.min(0, values[index])) - y(Math.max(0, values[index]))) }),
      marked.has(index) ? el('text', { class: 'label', x: LEFT + (index + 0.5) * step, y: 10 + height + 17,
        'text-anchor': index === 0 && some.length > 1 ? 'start' : index === some.length - 1 && some.length > 1 ? 'end' : 'middle' }, show(row[label]).slice(0, 16)) : null)));
}

const axisNumber = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
