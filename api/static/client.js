// The API, as the page uses it. A problem document becomes an error with its place in the SQL.

export class Problem extends Error {
  constructor(body) {
    super(body.detail ?? body.title ?? 'the server gave no reason');
    this.title = body.title;
    this.status = body.status;
    this.position = body.position;
    this.line = body.line;
    this.column = body.column;
  }
}

export async function get(path) {
  let response;
  try {
    response = await fetch(path, { headers: { Accept: 'application/json' } });
  } catch {
    throw new Problem({ title: 'No answer', detail: 'the Fleetmark server does not answer: is it running?' });
  }
  const body = await response.json().catch(() => ({ title: 'The answer is not JSON', status: response.status }));
  if (!response.ok) throw new Problem(body);
  return body;
}

export const queryPath = (sql, limit) =>
  `/query?${new URLSearchParams(limit ? { sql, limit } : { sql })}`;

export const query = (sql, limit) => get(queryPath(sql, limit));
