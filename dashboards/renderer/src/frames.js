// A target's answer as Grafana's data frames, the way the Infinity plugin's backend makes them.

import { FieldType, createDataFrame, getDisplayProcessor, getFieldDisplayName } from '@grafana/data';

const TYPES = { string: FieldType.string, number: FieldType.number, boolean: FieldType.boolean, timestamp: FieldType.time };
// The plugin's backend puts in the range, Grafana every variable: here all values are chosen.
const ALL = "'*'";

function interpolate(text, range) {
  return text
    .replaceAll('${__timeFrom}', String(range.from.valueOf()))
    .replaceAll('${__timeTo}', String(range.to.valueOf()))
    .replaceAll(/\$\{\w+:sqlstring\}/g, ALL);
}

async function rowsOf(target, range) {
  const asked = new URLSearchParams(target.url_options.params.map(({ key, value }) => [key, interpolate(value, range)]));
  const response = await fetch(`${target.url}?${asked}`, { headers: { Accept: 'application/json' } });
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail);
  return body[target.root_selector];
}

const read = (column, value) => (column.type === 'timestamp' && value !== null ? Date.parse(value) : value);

function tableFrame(target, rows) {
  return createDataFrame({
    refId: target.refId,
    fields: target.columns.map((column) => ({
      name: column.text, type: TYPES[column.type], values: rows.map((row) => read(column, row[column.selector])),
    })),
  });
}

// Long to wide: one field for each number and combination of names.
function wideFrame(target, rows) {
  const of = (type) => target.columns.filter((column) => column.type === type);
  const [time] = of('timestamp');
  const moments = [...new Set(rows.map((row) => row[time.selector]))];
  const at = new Map(moments.map((moment, index) => [moment, index]));
  const series = Map.groupBy(rows, (row) => JSON.stringify(of('string').map((column) => row[column.selector])));
  const fields = [...series].flatMap(([key, some]) => of('number').map((column) => {
    const values = moments.map(() => null);
    for (const row of some) values[at.get(row[time.selector])] = row[column.selector];
    const names = JSON.parse(key);
    const labels = Object.fromEntries(of('string').map((label, index) => [label.text, names[index] ?? '']));
    return { name: column.text, type: FieldType.number, labels: names.length ? labels : undefined, values };
  }));
  return createDataFrame({
    refId: target.refId,
    fields: [{ name: time.text, type: FieldType.time, values: moments.map((moment) => Date.parse(moment)) }, ...fields],
  });
}

function matches(matcher, field, name) {
  if (matcher.id === 'byName') return matcher.options === field.name || matcher.options === name;
  const pattern = new RegExp(matcher.options.slice(1, -1));
  return matcher.id === 'byRegexp' && pattern.test(name);
}

function configOf(panel, field, name) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  const config = { color: { mode: panel.type === 'stat' ? 'thresholds' : 'palette-classic' }, ...structuredClone(defaults) };
  config.custom = { ...config.custom };
  for (const { matcher, properties } of overrides) {
    if (!matches(matcher, field, name)) continue;
    for (const { id, value } of properties) {
      if (id.startsWith('custom.')) config.custom[id.slice(7)] = value;
      // A link needs a running Grafana to lead anywhere.
      else if (id !== 'links') config[id] = value;
    }
  }
  return config;
}

export async function frames(panel, range, theme) {
  const answers = await Promise.all(panel.targets.map(async (target) => {
    const rows = await rowsOf(target, range);
    return target.format === 'timeseries' ? wideFrame(target, rows) : tableFrame(target, rows);
  }));
  let index = 0;
  for (const frame of answers) {
    for (const field of frame.fields) {
      field.config = configOf(panel, field, getFieldDisplayName(field, frame, answers));
      field.state = { seriesIndex: field.type === FieldType.number ? index++ : undefined };
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return answers.filter((frame) => frame.length > 0);
}
