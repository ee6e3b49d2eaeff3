// Live updates of pages: sections are reloaded when something changes, and new log lines are added.
// Pages are complete without this script.
"use strict";

const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const SHOWN_FIRST = new Set(["timestamp", "level", "event", "exception", "rolled_back"]);
const MOST_LINES = 2000;

const visible = (text) => text.replace(INVISIBLE, (hidden) => "\\u" + hidden.charCodeAt(0).toString(16).padStart(4, "0"));

function part(name, text, ...more) {
  const element = document.createElement(name);
  element.append(visible(String(text)), ...more);
  return element;
}

// Returns one log line in the form of lines.html.
function line(record) {
  const item = document.createElement("li");
  if (record.level) item.className = record.level;
  if (record.timestamp) item.append(part("time", record.timestamp), " ");
  if (record.level) item.append(part("b", record.level), " ");
  const event = part("span", record.event);
  event.className = "event";
  item.append(event);
  for (const [name, value] of Object.entries(record)) {
    if (SHOWN_FIRST.has(name)) continue;
    const field = document.createElement("span");
    field.className = "field";
    field.append(part("i", name), "=" + visible(typeof value === "string" ? value : JSON.stringify(value)));
    item.append(" ", field);
  }
  if (record.exception) item.append(part("pre", record.exception));
  return item;
}

for (const log of document.querySelectorAll("ol.log")) {
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const address = log.dataset.follow;
  if (!address) continue;
  log.scrollTop = log.scrollHeight;
  new EventSource(address).addEventListener("message", (message) => {
    const stay = !atEnd();
    log.querySelector("li.none")?.remove();
    const record = JSON.parse(message.data);
    const added = line(record);
    // A write has one line: that it began is left out once it is written.
    if (record.event === "store.writing") added.dataset.write = record.write_id;
    if (record.event === "store.written") log.querySelector(`li[data-write="${CSS.escape(record.write_id)}"]`)?.remove();
    log.append(added);
    while (log.children.length > MOST_LINES) log.firstElementChild.remove();
    if (!stay) log.scrollTop = log.scrollHeight;
  });
}

// Pages have times in UTC. Here they are put into the browser's zone, unless the person has chosen UTC.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const written = new WeakMap(); // the texts as the server wrote them
let local = !["UTC", "Etc/UTC"].includes(zone);
try { local = local && localStorage.getItem("times") !== "UTC"; } catch { /* the browser keeps nothing for this site */ }

const parts = (at, options) => Object.fromEntries(
  new Intl.DateTimeFormat("en-US", { hourCycle: "h23", timeZone: local ? zone : "UTC", ...options }).formatToParts(at).map((each) => [each.type, each.value]));

function inZone(text) {
  if (!local) return text;
  return text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, day, time) => {
    const two = "2-digit";
    const at = parts(new Date(`${day}T${time}Z`), { year: "numeric", month: two, day: two, hour: two, minute: two, second: two, timeZoneName: "short" });
    return `${at.year}-${at.month}-${at.day} ${at.hour}:${at.minute}:${at.second} ${at.timeZoneName}`;
  });
}

function markOf(label) {
  const at = new Date(label.dataset.at);
  if (label.dataset.form === "day") { const { month, day } = parts(at, { month: "short", day: "2-digit" }); return `${month} ${day}`; }
  const { hour, minute } = parts(at, { hour: "2-digit", minute: "2-digit" });
  return `${hour}:${minute}`;
}

// Returns a time with its day as people say it: `today 18:09:31`.
function dayAndTime(at) {
  const two = "2-digit";
  const day = (moment) => { const { year, month, day } = parts(moment, { year: "numeric", month: two, day: two }); return `${year}-${month}-${day}`; };
  const now = new Date();
  const yesterday = new Date(`${day(now)}T00:00:00Z`);
  yesterday.setUTCDate(yesterday.getUTCDate() - 1);
  const name = { [day(now)]: "today", [yesterday.toISOString().slice(0, 10)]: "yesterday" }[day(at)] ?? day(at);
  const { hour, minute, second } = parts(at, { hour: two, minute: two, second: two });
  return `${name} ${hour}:${minute}:${second}`;
}

function showTimes(page) {
  for (const element of page.querySelectorAll("time, svg title")) {
    if (element.childElementCount) continue;
    if (!written.has(element)) written.set(element, [element.textContent, element.title]);
    const [text, title] = written.get(element);
    if (element.dataset.form === "day") { element.textContent = local ? dayAndTime(new Date(element.dateTime)) : text; continue; }
    if (inZone(text) !== element.textContent) element.textContent = inZone(text);
    if (title) element.title = inZone(title);
  }
  for (const label of page.querySelectorAll("text[data-at]")) label.textContent = markOf(label);
  for (const name of page.querySelectorAll(".timeline .zone")) name.textContent = local ? zone : "UTC";
}

// Fields for times are in UTC without this script. Here they are in the zone shown, and UTC is what is sent. A local time that was
// twice or never is refused with both times that it may mean.
const MINUTE = 60000;
const fields = () => document.querySelectorAll("input[data-utc]");
const wall = (at) => {
  const two = "2-digit";
  const each = Object.fromEntries(new Intl.DateTimeFormat("en-US", { hourCycle: "h23", timeZone: zone, year: "numeric", month: two, day: two, hour: two, minute: two, second: two }).formatToParts(new Date(at)).map((one) => [one.type, one.value]));
  return Date.UTC(each.year, each.month - 1, each.day, each.hour, each.minute, each.second);
};
const utcText = (at) => new Date(at).toISOString().slice(0, 19);
const clock = (at) => `${utcText(at).slice(0, 16).replace("T", " ")} UTC`;

// Returns the instants at which clocks of the zone show a time, and those around it: none if it never was, two if it was twice.
function instants(text) {
  const shown = Date.parse(`${text}Z`);
  const offsets = [-1440, 1440].map((minutes) => { const at = shown + minutes * MINUTE; return wall(at) - at; });
  const around = [...new Set(offsets.map((offset) => shown - offset))].sort((one, other) => one - other);
  return { exactly: around.filter((at) => wall(at) === shown), around };
}

function checkField(field) {
  field.setCustomValidity("");
  delete field.dataset.at;
  if (!field.value) return;
  if (!local) { field.dataset.at = `${utcText(Date.parse(`${field.value}Z`))}Z`; return; }
  const { exactly, around } = instants(field.value);
  if (exactly.length === 1) { field.dataset.at = `${utcText(exactly[0])}Z`; return; }
  const was = exactly.length ? "was twice" : "never was";
  field.setCustomValidity(`${field.value.replace("T", " ")} ${was} in ${zone}: it may mean ${around.map(clock).join(" or ")}. Choose UTC in the header, and give one of these.`);
}

function showFields() {
  for (const field of fields()) {
    const at = field.dataset.at ?? (field.value && `${utcText(Date.parse(`${field.value}Z`))}Z`);
    if (at) field.value = local ? utcText(wall(Date.parse(at))) : at.slice(0, -1);
    const label = field.labels[0]?.querySelector(".zone");
    if (label) label.textContent = local ? zone : "UTC";
    if (at) { field.setCustomValidity(""); field.dataset.at = at; } else checkField(field);
  }
}
document.addEventListener("input", (change) => { if (change.target.matches("input[data-utc]")) checkField(change.target); });
document.addEventListener("formdata", (form) => {
  for (const field of form.target.querySelectorAll("input[data-utc]")) if (field.dataset.at) form.formData.set(field.name, field.dataset.at);
});
showFields();

const header = document.querySelector("header nav");
if (header && !["UTC", "Etc/UTC"].includes(zone)) {
  const button = part("button", "");
  button.type = "button";
  button.className = "quiet";
  const name = () => { button.textContent = local ? `Times: ${zone}` : "Times: UTC"; };
  button.addEventListener("click", () => {
    local = !local;
    try { localStorage.setItem("times", local ? "local" : "UTC"); } catch { /* the choice holds for this page */ }
    name();
    showTimes(document);
    showFields();
  });
  name();
  header.after(button);
  showTimes(document);
}

// An id is copied by a button beside it. Where a browser lets nobody copy (a page without TLS), it is selected.
function offerCopies(page) {
  for (const code of page.querySelectorAll("code[data-copy]")) {
    if (code.nextElementSibling?.matches("button.copy")) continue;
    const button = part("button", "Copy");
    button.type = "button";
    button.className = "quiet copy";
    code.after(" ", button);
  }
}
document.addEventListener("click", async (click) => {
  const button = click.target.closest?.("button.copy");
  if (!button) return;
  const code = button.previousElementSibling;
  try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
  catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
});
offerCopies(document);

// A menu of a row closes when another opens, and by Escape.
document.addEventListener("toggle", (change) => {
  if (!change.target.matches?.("details.menu[open]")) return;
  for (const other of document.querySelectorAll("details.menu[open]")) if (other !== change.target) other.open = false;
}, true);
document.addEventListener("keydown", (key) => {
  const menu = key.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});

// Sections are replaced by those of the same page as it is now, but not while a person types or is about to press a button there.
const live = () => [...document.querySelectorAll("section[data-live]")];
const busy = (section) => section.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, button, summary");
let reading = false;
let again = false;

async function refresh() {
  if (reading) { again = true; return; }
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok && !answer.redirected) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The daemon may be restarting. The next refresh may succeed.
  }
  await new Promise((resolve) => setTimeout(resolve, 1000));
  reading = false;
  if (again) { again = false; refresh(); }
}

const followed = (page) => page.querySelector("ol.log")?.dataset.follow;

function replace(page) {
  showTimes(page);
  offerCopies(page);
  if (followed(page) !== followed(document)) { location.reload(); return; } // another try has started
  for (const section of live()) {
    const fresh = page.getElementById(section.id);
    if (!fresh || busy(section) || fresh.innerHTML === section.innerHTML) continue;
    const open = [...section.querySelectorAll("details")].map((details) => details.open);
    const focus = section.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    section.replaceWith(fresh);
    fresh.querySelectorAll("details").forEach((details, place) => { details.open = open[place] ?? details.open; });
    if (focus) fresh.querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
  }
}

// A stream reports changes. A page in the background does not listen until it is visible again.
const changes = document.body.dataset.changes;
let stream = null;

function listen() {
  if (!changes || stream || document.hidden || !live().length) return;
  stream = new EventSource(changes);
  // The stream begins when it opens, so `open` refreshes for the changes since the page was rendered.
  for (const type of ["open", "asset_event", "run", "try", "watcher", "store", "reset"]) stream.addEventListener(type, refresh);
  stream.addEventListener("error", () => { if (stream?.readyState === EventSource.CLOSED) stream = null; });
}

// Facts that no change reports (ages, what a job waits for) are refreshed now and then; without a stream, everything is.
const every = (seconds, sections, withStream) => setInterval(() => {
  listen();
  const connected = stream !== null && stream.readyState === EventSource.OPEN;
  if (connected === withStream && !document.hidden && document.querySelector(sections)) refresh();
}, seconds * 1000);
every(30, "section[data-live]", true);
every(5, "section[data-live]", false);
every(2, "section[data-often]", false);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; return; }
  listen();
  if (live().length) refresh();
});
listen();
