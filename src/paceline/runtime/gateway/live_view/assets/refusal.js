// Why the stream of events was refused. A browser does not retry after an error status, and it does
// not say which one it was. The same request does: a refusal costs the gateway nothing, unlike the
// history of /dashboard/state.

/** The status and a text for a person; status 0 if the gateway cannot be reached in time. */
export async function askWhyRefused(timeoutMs) {
  const request = new AbortController();
  const timer = setTimeout(() => request.abort(), timeoutMs);
  try {
    const answer = await fetch("/dashboard/events", { cache: "no-store", signal: request.signal });
    if (answer.ok) return { status: 200, reason: "the stream was refused" }; // and is not any more
    return { status: answer.status, reason: (await answer.json()).error.message };
  } catch {
    return { status: 0, reason: "the gateway cannot be reached" };
  } finally {
    clearTimeout(timer);
    request.abort(); // an admitted stream would take the place of a viewer
  }
}
