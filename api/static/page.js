// The page: what the fleet looks like now, each figure with its definition and coverage.

import { get, query } from './client.js';
import * as sqlConsole from './console.js';
import { byId, cell, el, moment, number, percent, prose, table } from './dom.js';
import * as findings from './findings.js';
import { PANELS, define, panelNode, tile, unknownTile } from './panels.js';

async function freshness() {
  const health = await get('/healthz');
  const age = health.snapshot_age_s;
  const ago = age < 120 ? `${Math.round(age)} s` : age < 7200 ? `${Math.round(age / 60)} min` : `${Math.round(age / 3600)} h`;
  byId('freshness').textContent = `Snapshot ${health.snapshot}, ${ago} old`;
  byId('freshness').title = moment(health.snapshot_at);
  byId('foot').textContent = `Fleetmark ${health.version}. All times are UTC.`;
}

async function showPanel(panel, node) {
  const body = node.querySelector('.panel-body');
  try {
    const contract = await get(`/tables/${panel.table}`);
    define(node, panel, contract);
    if (contract.row_count === 0) {
      body.replaceChildren(el('p', { class: 'empty' }, `Nothing is known yet: ${panel.table} has no rows.`));
      return panel.tile ? unknownTile(panel.title, `#${panel.id}`, 'no data yet') : null;
    }
    const answer = await query(panel.sql);
    body.replaceChildren(answer.row_count ? panel.draw(answer.rows) : el('p', { class: 'empty' }, panel.empty ?? 'No rows.'));
    if (!answer.row_count && !panel.empty && panel.tile) return unknownTile(panel.title, `#${panel.id}`, 'no data yet');
    return panel.tile ? tile(panel.tile(answer.rows), `#${panel.id}`) : null;
  } catch (problem) {
    body.replaceChildren(el('p', { class: 'error' }, problem.message));
    return unknownTile(panel.title, `#${panel.id}`, 'could not be read');
  }
}

function coverage(value) {
  if (value.period_count === null) return cell(null);
  const periods = `${number(value.period_count)} of ${number(value.range_period_count)} ${value.period}s`;
  return el('span', {}, periods, value.mean_coverage_ratio === null ? null : el('span', { class: 'note' }, ` mean ${percent(value.mean_coverage_ratio)}`));
}

function tables(list) {
  byId('table-list').replaceChildren(table([
    { name: 'name', label: 'table', show: (name) => el('code', { id: `table-${name}` }, name) },
    { name: 'doc', label: 'what it holds', show: (doc) => prose(doc)[0] },
    { name: 'row_count', label: 'rows', type: 'BIGINT', show: number },
    { name: 'first_ts', label: 'from', show: moment }, { name: 'last_ts', label: 'to', show: moment },
    { name: 'coverage', show: coverage },
  ], list, 'Tables with row counts and coverage'));
}

async function start() {
  const nodes = PANELS.map(panelNode);
  byId('figures').append(...nodes);
  sqlConsole.start();
  try {
    await freshness();
  } catch (problem) {
    byId('freshness').textContent = problem.title ?? 'The store cannot be read';
    byId('glance').replaceChildren(el('p', { class: 'error' }, problem.message));
    return;
  }
  const listed = Promise.all([get('/tables').then((all) => tables(all.tables)), findings.start()]);
  const tiles = [findings.summary(), ...PANELS.map(() => null)];
  // One after the other: the page takes one query worker, and leaves the others to people.
  for (const [index, panel] of PANELS.entries()) tiles[index + 1] = await showPanel(panel, nodes[index]);
  byId('glance').replaceChildren(...(await Promise.all(tiles)).filter((one) => one !== null));
  await listed;
  document.body.dataset.ready = 'true';
}

start();
