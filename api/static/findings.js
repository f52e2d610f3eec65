// The list of findings, worst first, and the state of the detectors.

import { get } from './client.js';
import { byId, cell, el, interval, moment, number, sinceStart, table } from './dom.js';

const ENTITIES = {
  cluster: 'cluster', node: 'node', gpu_uuid: 'GPU', rank: 'rank', job_id: 'job',
  principal: 'principal', checkpoint: 'checkpoint', bucket: 'bucket', ip: 'address',
};
const CARD = {
  flags: 'What it flags', why: 'Why it matters', looks_like: 'What else looks like this',
  misses: 'What it misses', todo: 'What to do',
};
// Numbers that name something: no separators in them.
const NUMBERED = /(^|_)(attempt|id|rank|stage|index)$/;
const PAGE = 8;

let next = null;

function subject(finding) {
  const parts = Object.entries(ENTITIES).flatMap(([key, label]) => {
    const values = finding[key] ?? [];
    if (!values.length) return [];
    const more = values.length > 3 ? ` and ${values.length - 3} more` : '';
    return [el('span', { class: 'entity' }, el('i', {}, label), ` ${values.slice(0, 3).join(', ')}${more}`)];
  });
  return parts.length ? parts : [el('span', { class: 'entity' }, finding.finding_id)];
}

function evidence(value) {
  return el('dl', { class: 'evidence' }, Object.entries(value).map(([key, item]) => [
    el('dt', {}, key),
    el('dd', {}, typeof item === 'number' && !NUMBERED.test(key) ? number(item) : cell(item)),
  ]));
}

// Where the records hold no calendar time, the finding has none either.
const undated = (finding) => finding.evidence.time_basis === 'relative';

function span(finding) {
  if (!undated(finding)) return interval(finding.start_ts, finding.end_ts);
  return `${sinceStart(finding.start_ts)} to ${sinceStart(finding.end_ts)}, no date recorded`;
}

function sufficed(finding) {
  return undated(finding) ? `${sinceStart(finding.detected_at)} after the start` : `at ${moment(finding.detected_at)}`;
}

function bounds(finding) {
  if (finding.lower === null && finding.upper === null) return null;
  const quantity = typeof finding.evidence.quantity === 'string' ? finding.evidence.quantity : 'measured';
  return el('p', { class: 'bounds' }, `${quantity[0].toUpperCase()}${quantity.slice(1)}: between `, el('b', {}, number(finding.lower)), ' and ',
    el('b', {}, number(finding.upper)), '.');
}

async function fill(place, id) {
  try {
    const { card } = await get(`/findings/${encodeURIComponent(id)}`);
    place.replaceChildren(...(card === null
      ? [el('p', {}, 'The rule of this finding is no longer installed.')]
      : [
        el('h3', { class: 'part' }, card.title),
        el('dl', { class: 'card' }, Object.entries(CARD).map(([key, label]) =>
          [el('dt', {}, label), el('dd', {}, card[key])])),
        card.attack.length
          ? el('p', { class: 'note' }, `ATT&CK or ATLAS ${card.attack.join(', ')}, version ${card.attack_version || 'not stated'}`)
          : '',
      ]));
  } catch (problem) {
    place.replaceChildren(el('p', { class: 'error' }, problem.message));
  }
}

function entry(finding) {
  const rule = el('div', { class: 'rule' }, el('p', { class: 'note' }, 'Reading the rule'));
  const node = el('details', { class: `finding ${finding.severity}`, 'data-id': finding.finding_id },
    el('summary', {},
      el('span', { class: 'badge' }, finding.severity),
      el('span', { class: 'what' },
        el('b', {}, finding.kind.replaceAll('_', ' ')), el('small', {}, finding.detector)),
      el('span', { class: 'who' }, subject(finding)),
      el('span', { class: 'when' }, span(finding)),
      el('span', { class: 'score', title: 'strength of the evidence, 0 to 1' }, el('i', {}, 'score'), ` ${finding.score.toFixed(2)}`)),
    el('div', { class: 'body' },
      el('div', {}, el('h3', { class: 'part' }, 'Evidence'), bounds(finding), evidence(finding.evidence),
        el('p', { class: 'note' }, `Evidence sufficed ${sufficed(finding)}; last evaluated ${moment(finding.evaluated_at)}. Id ${finding.finding_id}`)),
      rule));
  node.addEventListener('toggle', () => { if (node.open) fill(rule, finding.finding_id); }, { once: true });
  return node;
}

async function load(cursor) {
  const form = new FormData(byId('finding-filter'));
  const asked = new URLSearchParams({ limit: PAGE });
  for (const [key, value] of form) if (value) asked.set(key, value);
  if (cursor) asked.set('cursor', cursor);
  const list = byId('finding-list');
  try {
    const page = await get(`/findings?${asked}`);
    const entries = page.items.map(entry);
    if (cursor) list.append(...entries);
    else list.replaceChildren(...(entries.length ? entries : [el('p', { class: 'empty' },
      'No finding. That is only good news where the detectors could judge: see below.')]));
    next = page.next;
    byId('finding-more').hidden = next === null;
    if (!cursor) byId('finding-count').textContent = `${number(page.total)} ${page.total === 1 ? 'finding' : 'findings'}`;
  } catch (problem) {
    list.replaceChildren(el('p', { class: 'error' }, problem.message));
  }
}

async function detectors() {
  const place = byId('detectors').querySelector('div');
  try {
    const rows = await get('/detectors');
    const judged = rows.filter((row) => row.status === 'evaluated').length;
    byId('detectors').querySelector('summary').textContent = `Detectors: ${judged} of ${rows.length} could judge`;
    place.replaceChildren(rows.length ? table([
      { name: 'detector' }, { name: 'title' },
      { name: 'status', show: (value) => value.replaceAll('_', ' ') }, { name: 'reason' },
      { name: 'finding_count', label: 'findings', type: 'BIGINT', show: number },
      { name: 'evaluated_at', label: 'last run', show: moment },
    ], rows, 'Detectors and whether they could judge') : el('p', { class: 'empty' }, 'No detector is installed.'));
  } catch (problem) {
    place.replaceChildren(el('p', { class: 'error' }, problem.message));
  }
}

// The tile at the top counts what the list shows.
export async function summary() {
  const page = await get('/findings?limit=1');
  const severe = (page.severity_counts.critical ?? 0) + (page.severity_counts.high ?? 0);
  return el('a', { class: severe ? 'tile severe' : 'tile', href: '#findings' },
    el('b', {}, number(severe)), el('span', {}, severe === 1 ? 'high or critical finding' : 'high or critical findings'),
    el('small', {}, `of ${number(page.total)} in all`));
}

export function start() {
  byId('finding-filter').addEventListener('change', () => load(null));
  byId('finding-filter').addEventListener('submit', (event) => event.preventDefault());
  byId('finding-more').addEventListener('click', () => load(next));
  return Promise.all([load(null), detectors()]);
}
