// Pages that follow the log without a reload. Without this script every form and link works all the same.
//
// The server sends HTML, and this script brings the page to the same HTML in place, node by node, so that the focus,
// open details and values that are being typed stay.

const LIST_EVERY = 5000; // milliseconds between two looks at the list of studies
const PAUSE = 300; // milliseconds between two refreshes of a study, however many events come
const LONGEST_WAIT = 30000; // milliseconds until the next attempt to connect
const UNNAMED = "dashboard"; // the worker where neither a token nor the address has a name

const live = document.getElementById("live");
const list = document.querySelector("[data-again]");

// ---- bringing a node to fresh HTML

const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

/** Whether a person has changed a field since the server wrote it. */
function isTyped(field) {
  return field.matches?.("input:not([type=hidden]), textarea") && field.value !== field.defaultValue;
}

function morphAttributes(old, fresh) {
  if (old.hasAttribute("data-keep")) return; // the name of a value that may be sent again
  const keptOpen = old.localName === "details"; // open and closed is the choice of the reader
  const wasTyped = isTyped(old);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(keptOpen && name === "open")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !(keptOpen && name === "open")) old.setAttribute(name, value);
  }
  if (old.localName === "input" && !wasTyped && old !== document.activeElement) old.value = old.defaultValue;
}

function isSameKind(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  morphAttributes(old, fresh);
  morphChildren(old, fresh);
}

/** Children with an id meet their namesakes; the others meet by their order. A node that moves would lose the focus. */
export function morphChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map((child) => child.id).filter(Boolean));
  for (const child of [...old.children]) {
    if (child.id && !wanted.has(child.id)) child.remove();
  }
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const found = child.id ? named.get(child.id) : place;
    while (child.id && found && place !== found && !place.id) place = removed(place);
    if (!found || !isSameKind(found, child)) {
      old.insertBefore(document.importNode(child, true), place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    morph(found, child);
  }
  while (place) place = removed(place);
}

/** Remove a node; return the one after it. */
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// ---- what is said to the reader

function sayConnection(text, isLost = false) {
  const place = document.getElementById("connection");
  if (place && place.textContent !== text) {
    place.textContent = text;
    place.classList.toggle("lost", isLost);
  }
}

const LOST = "connection lost, trying again";

function sayProblem(text) {
  const place = document.createElement("p");
  place.id = "silent"; // until the server answers again
  place.className = "problem";
  place.setAttribute("role", "alert");
  place.textContent = text;
  document.getElementById("message").replaceChildren(place);
}

// ---- a study

let isBusy = false;
let isStale = false;
let nSent = 0; // forms answered; what was fetched before the last answer may be older than the page

/** Fetch the part of the page that changes; at most one request at a time. */
async function refresh() {
  if (isBusy) {
    isStale = true;
    return;
  }
  isBusy = true;
  isStale = false;
  const before = nSent;
  try {
    const response = await fetch(live.dataset.live + location.search);
    if ([401, 403, 404].includes(response.status)) location.reload(); // signed out, or the study is gone
    const fresh = parsed(await response.text()).body;
    if (before !== nSent) isStale = true;
    else if (response.ok) morphChildren(live, fresh);
  } catch {
    sayConnection(LOST, true); // the stream says when the server is back
  }
  setTimeout(() => {
    isBusy = false;
    if (isStale) refresh();
  }, PAUSE);
}

let stream = null;
let wait = 1000;
let isLost = false;

/** Follow the events of the log from the one that the page shows. */
function follow() {
  stream?.close();
  stream = new EventSource(`${live.dataset.events}?after=${document.getElementById("head").dataset.n}`);
  stream.onopen = () => {
    sayConnection("live");
    document.getElementById("silent")?.remove();
    wait = 1000;
    if (isLost) refresh();
    isLost = false;
  };
  stream.onmessage = refresh;
  stream.onerror = () => {
    isLost = true;
    sayConnection(LOST, true);
    refresh(); // finds out if the token no longer holds, or the study is gone
    if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    setTimeout(tryAgain, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  };
}

function tryAgain() {
  if (document.hidden) return;
  follow();
  refresh(); // finds out if the token no longer holds, or the study is gone
}

/** Put the focus on a field, and the field in sight. */
function focusOn(field) {
  field?.focus({ preventScroll: true });
  field?.scrollIntoView({ block: "center" });
}

/** Put the focus where the work goes on, if its element is gone. */
function moveFocus() {
  if (document.activeElement && document.activeElement !== document.body) return;
  const next = document.querySelector("#message button, #asks input[name=value], #ask-form button");
  next?.focus({ preventScroll: true });
}

/** Send a form, and show the page that the server answers with in place of a reload. */
async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  button?.setAttribute("aria-busy", "true");
  try {
    // Not `form.action`: a field of that name hides the attribute.
    const response = await fetch(form.getAttribute("action"), { method: "POST", body: fields });
    const fresh = parsed(await response.text());
    const message = fresh.getElementById("message");
    if (!message) {
      location.reload(); // signed out, or the study is gone
      return;
    }
    if (!message.querySelector(".problem")) {
      form.reset();
      for (const field of form.querySelectorAll("[data-keep]")) {
        field.value = crypto.getRandomValues(new Uint32Array(4)).join("-");
      }
      form.closest("details")?.removeAttribute("open");
      history.replaceState(null, "", response.url);
      if (form.id === "ask-form") memory()?.setItem("worker", fields.get("worker"));
      if (fields.has("group")) memory()?.setItem(LABEL, `${today()} ${fields.get("group")}`);
      nSent += 1;
      morph(live, fresh.getElementById("live"));
    }
    document.getElementById("message").replaceChildren(...message.childNodes);
    moveFocus();
    if (form.id === "ask-form") focusOn(document.querySelector("#asks article input[name=value]"));
  } catch {
    sayProblem("The server does not answer. What you typed is still here: send it again; nothing counts twice.");
  } finally {
    button?.removeAttribute("aria-busy");
  }
}

/** What the browser keeps between visits; null where it is told to keep nothing. */
function memory() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

const LABEL = `group ${location.pathname}`; // of a study: the label of one is none of another

const today = () => new Date().toDateString();

/** Where the address does not say them, take the worker whom this browser asked for last, and the label of today. */
function recall() {
  const search = new URLSearchParams(location.search);
  const isUnnamed = document.getElementById("worker")?.defaultValue === UNNAMED;
  const worker = isUnnamed ? memory()?.getItem("worker") : null;
  const label = memory()?.getItem(LABEL) ?? "";
  const group = label.startsWith(today()) ? label.slice(today().length + 1) : null;
  const known = Object.entries({ worker, group }).filter(([name, last]) => last && !search.has(name));
  if (!known.length) return;
  for (const [name, last] of known) search.set(name, last);
  history.replaceState(null, "", `?${search}`);
  refresh();
}

function onSubmit(event) {
  const form = event.target;
  const isQuestion = form.closest("#message") !== null;
  if (!isQuestion && !form.closest("#live")) return;
  event.preventDefault();
  if (event.submitter?.getAttribute("aria-busy") === "true") return;
  if (form.method === "get") {
    document.getElementById("message").replaceChildren(); // the value is kept
    moveFocus();
  } else send(form, event.submitter);
}

// ---- the list of studies

async function refreshList() {
  if (document.hidden) return;
  try {
    const response = await fetch(location.href);
    const fresh = parsed(await response.text()).querySelector("[data-again]");
    if (response.status === 401 || (response.ok && !fresh)) location.reload();
    if (fresh) morph(list, fresh);
    sayConnection("");
  } catch {
    sayConnection(LOST, true);
  }
}

// ---- a new study

const file = document.querySelector("[data-longest]");
file?.addEventListener("change", () => {
  const isLong = file.files[0]?.size > Number(file.dataset.longest);
  file.setCustomValidity(isLong ? `Choose a file of at most ${file.dataset.longest} bytes.` : "");
  file.reportValidity();
});

// ---- start

if (live) {
  document.addEventListener("submit", onSubmit);
  follow();
  recall();
  // A hidden page needs no stream, and browsers allow few at a time.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.close();
    else tryAgain();
  });
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) follow();
  });
}
if (list) setInterval(refreshList, LIST_EVERY);
