// The figures: each is one query over one table. What a column means is read from the table's contract.

import { intervals, meter, quartiles } from './charts.js';
import { byId, day, el, moment, number, percent, prose, table } from './dom.js';
import * as heat from './heat.js';
import * as jobs from './jobs.js';

const STATES = { act: 'critical', watch: 'medium', unknown: 'info' };

const known = (rows, name) => rows.filter((row) => typeof row[name] === 'number');
const sum = (values) => values.reduce((total, value) => total + value, 0);

// The mean of the rows that know the value, weighted by a column where one is named.
function mean(rows, name, weight) {
  const some = known(rows, name);
  const weights = some.map((row) => (weight ? row[weight] ?? 0 : 1));
  const total = sum(weights);
  return total > 0 ? sum(some.map((row, index) => row[name] * weights[index])) / total : null;
}

function middle(rows, name) {
  const values = known(rows, name).map((row) => row[name]).sort((a, b) => a - b);
  const half = values.length / 2;
  return values.length ? (values[Math.ceil(half) - 1] + values[Math.floor(half)]) / 2 : null;
}

// The newest row of the cluster that weighs most there: days of different clusters add up to nothing.
function newestOfLargest(rows, weight) {
  const last = [...Map.groupBy(rows, (row) => row.cluster).values()]
    .map((some) => some.reduce((a, b) => (b.day_ts > a.day_ts ? b : a)));
  const row = last.reduce((a, b) => ((b[weight] ?? 0) > (a[weight] ?? 0) ? b : a));
  const where = last.length > 1 ? `${row.cluster}, largest of ${last.length} clusters` : row.cluster;
  return { row, where: `${where}, ${day(row.day_ts)}` };
}

function byCluster(rows, draw) {
  const clusters = Map.groupBy(rows, (row) => row.cluster);
  return [...clusters].flatMap(([cluster, some]) => [
    clusters.size > 1 ? el('h4', {}, cluster) : null,
    draw(some, cluster),
  ]);
}

const range = (lower, upper) => (typeof lower === 'number' && typeof upper === 'number'
  ? `${(lower * 100).toFixed(1)} to ${percent(upper)}` : percent(null));

export const PANELS = [
  {
    id: 'nodes',
    title: 'Nodes, worst first',
    table: 'node_health',
    defined: ['state', 'action', 'reason', 'gpu_h_at_stake', 'coverage_ratio'],
    sql: `SELECT cluster, day_ts, node, state, action, reason, worst_gpu_uuid, gpu_h_at_stake, since_ts, coverage_ratio
FROM node_health
QUALIFY day_ts = max(day_ts) OVER (PARTITION BY cluster) AND state IN ('act', 'watch', 'unknown')
ORDER BY list_position(['act', 'watch', 'unknown'], state), cluster, rank_in_cluster
LIMIT 100`,
    empty: 'Every node that could be judged is clear.',
    tile: (rows) => {
      const act = rows.filter((row) => row.state === 'act').length;
      const unknown = rows.filter((row) => row.state === 'unknown').length;
      return { value: number(act), label: `${act === 1 ? 'node' : 'nodes'} to act on, ${number(unknown)} unknown`, coverage: mean(rows, 'coverage_ratio') };
    },
    draw: (rows) => table([
      { name: 'node' }, { name: 'state', show: (value) => el('span', { class: `badge ${STATES[value] ?? 'info'}` }, value) },
      { name: 'action', show: (value) => value.replaceAll('_', ' ') }, { name: 'reason' },
      { name: 'worst_gpu_uuid', label: 'GPU' },
      { name: 'gpu_h_at_stake', label: 'GPU-hours at stake', type: 'DOUBLE', show: number },
      { name: 'since_ts', label: 'since', show: moment },
      { name: 'coverage_ratio', label: 'coverage', type: 'DOUBLE', show: meter },
    ], rows, 'Nodes to act on, to watch, or unknown'),
  },
  {
    id: 'jobs',
    title: 'Jobs and where their GPU-hours went',
    table: 'job_goodput',
    defined: ['allocated_gpu_s', 'productive_gpu_s', 'unexplained_gpu_s', 'coverage_ratio'],
    sql: jobs.SQL,
    tile: jobs.tile,
    draw: jobs.draw,
  },
  {
    id: 'heat',
    title: 'Straggler heat map',
    table: 'step_straggler',
    defined: ['ratio', 'verdict', 'coverage_ratio'],
    sql: heat.SQL,
    draw: heat.draw,
  },
  {
    id: 'stragglers',
    title: 'Straggler ranks',
    table: 'step_straggler',
    defined: ['ratio', 'lost_gpu_s', 'coverage_ratio'],
    sql: `SELECT cluster, job_id, attempt, rank, day_ts, time_basis, ratio, ratio_lower, ratio_upper, lost_gpu_s, coverage_ratio
FROM step_straggler
WHERE verdict = 'slow'
ORDER BY lost_gpu_s DESC NULLS LAST, ratio DESC
LIMIT 50`,
    empty: 'No rank stays behind its peers in the steps that could be judged.',
    tile: (rows) => {
      const ranks = new Set(rows.map((row) => JSON.stringify([row.cluster, row.job_id, row.attempt, row.rank]))).size;
      return { value: number(ranks), label: ranks === 1 ? 'straggling rank' : 'straggling ranks', coverage: mean(rows, 'coverage_ratio') };
    },
    draw: (rows) => table([
      { name: 'job_id', label: 'job' }, { name: 'rank', type: 'INTEGER' }, { name: 'day_ts', label: 'day', show: (value, row) => (row.time_basis === 'relative'
        ? el('span', { class: 'unknown', title: 'the records hold no calendar time' }, 'no date') : day(value)) },
      { name: 'ratio', label: 'times its peers', type: 'DOUBLE', show: (value, row) =>
        el('span', { title: `95 %: ${number(row.ratio_lower)} to ${number(row.ratio_upper)}` }, number(value)) },
      { name: 'lost_gpu_s', label: 'GPU-hours lost', title: 'at most', type: 'DOUBLE', show: (value) => number(value === null ? null : value / 3600) },
      { name: 'coverage_ratio', label: 'coverage', type: 'DOUBLE', show: meter },
    ], rows, 'Straggler ranks'),
  },
  {
    id: 'goodput',
    title: 'Goodput per day',
    table: 'goodput_day',
    defined: ['goodput_lower_ratio', 'goodput_upper_ratio', 'coverage_ratio'],
    sql: `SELECT cluster, day_ts, goodput_lower_ratio AS lower, goodput_upper_ratio AS upper,
       coverage_ratio AS coverage, allocated_gpu_s
FROM goodput_day
QUALIFY day_ts > max(day_ts) OVER (PARTITION BY cluster) - INTERVAL 60 DAYS
ORDER BY cluster, day_ts`,
    tile: (rows) => {
      const { row, where } = newestOfLargest(rows, 'allocated_gpu_s');
      return { value: range(row.lower, row.upper), label: `goodput (${where})`, coverage: row.coverage };
    },
    draw: (rows) => el('div', {}, byCluster(rows, (some, cluster) => [
      intervals(some, `Goodput interval per day, ${cluster}`),
      el('details', { class: 'quiet' }, el('summary', {}, 'The same as a table'),
        el('div', { class: 'scroll' }, table([
          { name: 'day_ts', label: 'day', show: day },
          { name: 'lower', label: 'at least', type: 'DOUBLE', show: percent },
          { name: 'upper', label: 'at most', type: 'DOUBLE', show: percent },
          { name: 'allocated_gpu_s', label: 'GPU-hours held', type: 'DOUBLE', show: (value) => number(value === null ? null : value / 3600) },
          { name: 'coverage', type: 'DOUBLE', show: meter },
        ], some, `Goodput per day, ${cluster}`))),
    ])),
  },
  {
    id: 'utilisation',
    title: 'Utilisation of virtual clusters',
    table: 'vc_utilization_month',
    defined: ['median_ratio', 'q1_ratio', 'q3_ratio', 'coverage_ratio'],
    sql: `SELECT cluster, vc, month_ts, q1_ratio, median_ratio, q3_ratio, coverage_ratio
FROM vc_utilization_month
QUALIFY month_ts = max(month_ts) OVER (PARTITION BY cluster, vc)
ORDER BY median_ratio DESC NULLS LAST, cluster, vc
LIMIT 40`,
    tile: (rows) => ({ value: percent(middle(rows, 'median_ratio')), label: `utilisation, the middle of ${rows.length} virtual clusters`, coverage: mean(rows, 'coverage_ratio') }),
    draw: (rows) => table([
      { name: 'vc', label: 'virtual cluster' }, { name: 'month_ts', label: 'month', show: (value) => value.slice(0, 7) },
      { name: 'q1_ratio', label: 'quartiles, 0 to 100 %', show: (_, row) => quartiles(row.q1_ratio, row.median_ratio, row.q3_ratio) },
      { name: 'median_ratio', label: 'median', type: 'DOUBLE', show: percent },
      { name: 'coverage_ratio', label: 'coverage', type: 'DOUBLE', show: meter },
    ], rows, 'Utilisation quartiles per virtual cluster'),
  },
  {
    id: 'gpu-coverage',
    title: 'GPU minutes seen',
    table: 'coverage_gpu_day',
    defined: ['minute_expected_count', 'minute_covered_count', 'coverage_ratio'],
    sql: `SELECT cluster, day_ts, count(*) FILTER (WHERE minute_expected_count > 0) AS gpus,
       count(*) FILTER (WHERE minute_expected_count > 0 AND minute_seen_count = 0) AS silent,
       count(*) FILTER (WHERE minute_expected_count IS NULL) AS unlisted,
       sum(minute_seen_count)::BIGINT AS seen,
       sum(minute_expected_count)::BIGINT AS expected,
       sum(minute_covered_count) / nullif(sum(minute_expected_count), 0) AS coverage_ratio
FROM coverage_gpu_day
GROUP BY cluster, day_ts
QUALIFY day_ts > coalesce(max(CASE WHEN sum(minute_seen_count) > 0 THEN day_ts END) OVER (PARTITION BY cluster),
                          max(day_ts) OVER (PARTITION BY cluster)) - INTERVAL 14 DAYS
ORDER BY day_ts DESC, cluster`,
    tile: (rows) => {
      // Days on which a cluster was silent stand in the table: other clusters' days make them.
      const seen = rows.filter((row) => row.seen > 0 && row.expected > 0);
      const { row, where } = newestOfLargest(seen.length ? seen : rows, 'expected');
      return { value: percent(row.coverage_ratio), label: `of GPU minutes seen (${where})` };
    },
    draw: (rows) => table([
      { name: 'day_ts', label: 'day', show: day }, { name: 'cluster' },
      { name: 'gpus', label: 'GPUs', title: 'in service by the inventory', type: 'BIGINT', show: number },
      { name: 'silent', label: 'never seen', type: 'BIGINT', show: number },
      { name: 'unlisted', label: 'not in inventory', title: 'GPUs that report and that the inventory does not name', type: 'BIGINT', show: number },
      { name: 'coverage_ratio', label: 'coverage', type: 'DOUBLE', show: meter },
    ], rows, 'Share of GPU minutes with samples'),
  },
];

export function panelNode(panel) {
  return el('article', { class: 'panel', id: panel.id, 'aria-labelledby': `${panel.id}-title` },
    el('div', { class: 'panel-head' },
      el('h3', { id: `${panel.id}-title` }, panel.title),
      el('a', { href: '#sql', class: 'open-sql', onclick: () => { byId('sql-text').value = panel.sql; } }, 'Open its SQL')),
    el('div', { class: 'panel-body scroll', tabindex: 0, role: 'region', 'aria-label': panel.title }, el('p', { class: 'note' }, 'Reading')),
    el('dl', { class: 'definition' }));
}

export function define(node, panel, contract) {
  const columns = contract.columns.filter((column) => panel.defined.includes(column.name));
  node.querySelector('.definition').replaceChildren(
    el('dt', {}, el('a', { href: `#table-${contract.name}` }, contract.name)), el('dd', {}, prose(contract.doc)),
    ...columns.flatMap((column) => [el('dt', {}, column.name), el('dd', {}, column.doc)]),
    el('dt', {}, 'seen'), el('dd', {}, contract.row_count
      ? `${number(contract.row_count)} rows, ${moment(contract.first_ts)} to ${moment(contract.last_ts)}`
      : 'no rows'));
}

export const tile = ({ value, label, coverage }, href) => el('a', { class: 'tile', href },
  el('b', {}, value), el('span', {}, label),
  coverage === undefined ? null : el('small', {}, `coverage ${percent(coverage)}`));

export const unknownTile = (label, href, reason) => el('a', { class: 'tile', href },
  el('b', { class: 'unknown' }, '–'), el('span', {}, label), el('small', {}, reason));
