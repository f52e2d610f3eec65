// Jobs and where their GPU-hours went: one strip a job, opened it is a waterfall from all to useful.

import { el, number, percent } from './dom.js';

// Columns of the panel's query, in the order of the waterfall: what is left at its end was useful.
const CLASSES = {
  idle: 'GPUs did nothing',
  unexplained: 'nothing is known',
  lost: 'lost work, hangs, preemption',
  degraded: 'throttled or degraded',
  waiting: 'waiting for data, others, the network',
  saving: 'saving checkpoints',
  starting: 'starting and loading',
  useful: 'useful: training and evaluation',
};

const hours = (name) => `sum(${name.split(' ').map((part) => `${part}_gpu_s`).join(' + ')}) / 3600`;

export const SQL = `SELECT cluster, job_id, min(account) AS team, sum(allocated_gpu_s) / 3600 AS held,
       ${hours('productive evaluation')} AS useful,
       ${hours('init restart checkpoint_load')} AS starting,
       ${hours('checkpoint_save')} AS saving,
       ${hours('data_stall communication_stall straggler')} AS waiting,
       ${hours('throttle silent_degradation')} AS degraded,
       ${hours('lost_work hang_detection preemption')} AS lost,
       ${hours('idle')} AS idle,
       ${hours('unexplained')} AS unexplained,
       avg(coverage_ratio) AS coverage_ratio
FROM job_goodput
WHERE allocated_gpu_s > 0 AND day_ts > (SELECT max(day_ts) FROM job_goodput) - INTERVAL 30 DAYS
GROUP BY GROUPING SETS ((cluster, job_id), ())
ORDER BY grouping(job_id) DESC, held - useful DESC NULLS LAST, cluster, job_id
LIMIT 21`;

const known = (row) => Object.keys(CLASSES).filter((name) => typeof row[name] === 'number' && row[name] > 0);

function bar(name, start, width) {
  return el('rect', { class: `share ${name}`, x: start * 200, width: Math.max(0.4, width * 200), y: 2, height: 14 });
}

function picture(label, ...bars) {
  return el('svg', { class: 'strip', viewBox: '0 0 200 18', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    el('rect', { class: 'rail', width: 200, y: 8, height: 2 }), bars);
}

// Each step begins where the one before ended: from all that was held down to what was useful.
function steps(row) {
  let left = 1;
  return known(row).map((name) => {
    const share = row[name] / row.held;
    left -= share;
    return { name, share, start: Math.max(0, left) };
  });
}

function waterfall(row) {
  return el('table', { class: 'waterfall' },
    el('caption', { class: 'sr' }, `GPU-hours of ${row.job_id ?? 'all jobs'} by class`),
    el('thead', {}, el('tr', {}, ['class', 'GPU-hours', 'share', 'from all to useful'].map((label, index) =>
      el('th', { scope: 'col', class: index === 1 || index === 2 ? 'num' : null }, label)))),
    el('tbody', {}, steps(row).map(({ name, share, start }) => el('tr', { 'data-class': name },
      el('th', { scope: 'row' }, CLASSES[name]), el('td', { class: 'num' }, number(row[name])),
      el('td', { class: 'num' }, percent(share)), el('td', {}, picture(`${CLASSES[name]}: ${percent(share)}`, bar(name, start, share)))))));
}

function entry(row) {
  const name = row.job_id ?? 'All jobs';
  const useful = typeof row.useful === 'number' ? row.useful / row.held : null;
  return el('details', { class: 'job', 'data-job': row.job_id ?? '', open: row.job_id === null },
    el('summary', {},
      el('span', { class: 'name' }, el('b', {}, name), el('small', {}, row.job_id === null ? '' : [row.cluster, row.team].filter(Boolean).join(', '))),
      picture(`${name}: ${percent(useful)} useful`, steps(row).map((step) => bar(step.name, step.start, step.share))),
      el('span', { class: 'num' }, `${number(row.held)} GPU-hours, ${percent(useful)} useful, coverage ${percent(row.coverage_ratio)}`)),
    waterfall(row));
}

export const draw = (rows) => el('div', { class: 'jobs' }, rows.map(entry));

export function tile([all]) {
  const useful = typeof all.useful === 'number' ? all.useful / all.held : null;
  return { value: percent(useful), label: `useful of ${number(all.held)} GPU-hours held`, coverage: all.coverage_ratio };
}
