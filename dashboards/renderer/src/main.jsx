// Draws one dashboard with Grafana's own panels: `?board=NAME.json&from=MS&to=MS`.

import { createTheme, dateTime, reduceField, FieldType } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, GlobalStyles, PanelChrome, Table, ThemeContext, TimeSeries } from '@grafana/ui';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { frames } from './frames.js';

const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: asked.get('theme') ?? 'light' } });
const ROW = 38;
const GAP = 8;

function range(board) {
  const [from, to] = ['from', 'to'].map((name) => dateTime(Number(asked.get(name))));
  return { from, to, raw: board.time };
}

function Stat({ data, width, height }) {
  const fields = data[0].fields.filter((field) => field.type === FieldType.number);
  return (
    <div style={{ display: 'flex' }}>
      {fields.map((field) => {
        const value = reduceField({ field, reducers: ['lastNotNull'] }).lastNotNull;
        const shown = { ...field.display(value), title: field.config.displayName ?? field.name };
        return <BigValue key={field.name} theme={theme} width={width / fields.length} height={height} value={shown}
          colorMode={BigValueColorMode.Value} graphMode={BigValueGraphMode.None} />;
      })}
    </div>
  );
}

const KINDS = {
  stat: Stat,
  table: ({ data, width, height }) => <Table data={data[0]} width={width} height={height} />,
  timeseries: ({ data, width, height, time }) => (
    <TimeSeries frames={data} structureRev={1} width={width} height={height} timeRange={time} timeZone="utc"
      legend={{ displayMode: 'list', placement: 'bottom', calcs: [], showLegend: true }} />
  ),
};

function Panel({ panel, width, height, time, done }) {
  const [data, setData] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    frames(panel, time, theme).then(setData, (error) => setProblem(String(error))).then(() => setTimeout(done, 500));
  }, []);
  const Kind = KINDS[panel.type];
  return (
    <PanelChrome title={panel.title} width={width} height={height} statusMessage={problem ?? undefined}>
      {(inner, tall) => {
        if (problem) return <p data-problem>{problem}</p>;
        if (data === null) return null;
        return data.length ? <Kind data={data} width={inner} height={tall} time={time} /> : <p data-empty>No data</p>;
      }}
    </PanelChrome>
  );
}

function App({ board }) {
  const [left, setLeft] = useState(board.panels.length);
  const column = (window.innerWidth - 2 * GAP) / 24;
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div id="board" data-left={left} style={{ position: 'relative', height: bottom * ROW + GAP, background: theme.colors.background.canvas }}>
        {board.panels.map((panel) => (
          <div key={panel.id} data-panel={panel.id} style={{ position: 'absolute', left: GAP + (panel.gridPos.x ?? 0) * column, top: GAP + panel.gridPos.y * ROW }}>
            <Panel panel={panel} width={panel.gridPos.w * column - GAP} height={panel.gridPos.h * ROW - GAP} time={range(board)}
              done={() => setLeft((count) => count - 1)} />
          </div>
        ))}
      </div>
    </ThemeContext.Provider>
  );
}

const board = await (await fetch(asked.get('board'))).json();
createRoot(document.getElementById('root')).render(<App board={board} />);
