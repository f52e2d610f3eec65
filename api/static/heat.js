// A heat map of ranks: one square a rank, shaded by how much longer its work takes than its peers'.

import { day, el, number } from './dom.js';

const SIDE = 18;
const COLUMNS = 28;
// From this ratio on: the shades of page.css.
const SHADES = [[1.25, 'worst'], [1.1, 'worse'], [1.04, 'slower']];

export const SQL = `SELECT cluster, job_id, attempt, day_ts, time_basis, pp_stage, rank, node, ratio, verdict, coverage_ratio
FROM step_straggler
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster, job_id, attempt)
ORDER BY max(lost_gpu_s) OVER (PARTITION BY cluster, job_id, attempt) DESC NULLS LAST, cluster, job_id, attempt, rank
LIMIT 4096`;

const shade = (ratio) => (typeof ratio === 'number' ? SHADES.find(([from]) => ratio >= from)?.[1] ?? 'even' : 'unjudged');

function square(row, index) {
  const place = [row.node, row.pp_stage === null ? null : `stage ${row.pp_stage}`].filter(Boolean).join(', ');
  return el('rect', {
    class: `heat ${shade(row.ratio)}`, 'data-rank': row.rank, rx: 3, width: SIDE - 3, height: SIDE - 3,
    x: (index % COLUMNS) * SIDE, y: Math.floor(index / COLUMNS) * SIDE,
  }, el('title', {}, `rank ${row.rank} (${place}): ${number(row.ratio)} times its peers, ${row.verdict}`));
}

function attempt(rows) {
  const [first] = rows;
  const judged = rows.filter((row) => typeof row.ratio === 'number');
  const slowest = judged.reduce((a, b) => (a && a.ratio >= b.ratio ? a : b), null);
  const said = slowest ? `slowest is rank ${slowest.rank}, ${number(slowest.ratio)} times its peers` : 'none could be judged';
  const when = first.time_basis === 'relative' ? 'no date' : day(first.day_ts);
  const wide = Math.min(rows.length, COLUMNS) * SIDE;
  const high = Math.ceil(rows.length / COLUMNS) * SIDE;
  return el('figure', { class: 'heat-map' },
    el('figcaption', {}, el('b', {}, first.job_id), ` attempt ${first.attempt}, ${when}: ${judged.length} of ${rows.length} ranks judged; ${said}`),
    el('svg', { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: 'img', 'aria-label': `${first.job_id}: ${said}` },
      rows.map(square)));
}

export const draw = (rows) => el('div', {},
  [...Map.groupBy(rows, (row) => JSON.stringify([row.cluster, row.job_id, row.attempt])).values()].slice(0, 12).map(attempt),
  el('p', { class: 'legend' }, [['even', 'as its peers'], ...SHADES.toReversed().map(([from, name]) => [name, `${from} times and more`]), ['unjudged', 'not judged']]
    .map(([name, label]) => el('span', {}, el('i', { class: `heat ${name}` }), label))));
