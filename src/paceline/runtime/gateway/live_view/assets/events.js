// The list of events, newest first. Their texts come from replicas and engines: text only.

import { clock } from "./formats.js";

const MAX_EVENTS = 200;

function makeEvent(event) {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.dateTime = new Date(event.at_s * 1000).toISOString();
  time.textContent = clock(event.at_s);
  const replica = document.createElement("span");
  replica.textContent = event.replica;
  const text = document.createElement("span");
  text.textContent = event.text;
  if (event.is_problem) text.className = "bad";
  item.append(time, replica, text);
  return item;
}

/** Add events, oldest first. */
export function addEvents(events) {
  const list = document.getElementById("events");
  for (const event of events) list.prepend(makeEvent(event)); // oldest first: the newest ends on top
  while (list.children.length > MAX_EVENTS) list.lastChild.remove();
  document.getElementById("no-events").hidden = list.children.length > 0;
}

/** Remove all; those of the history follow. */
export function clearEvents() {
  document.getElementById("events").replaceChildren();
}
