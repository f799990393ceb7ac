"use strict";
// Every value from the table goes in as text, never as markup. The address has the token in it, so
// addresses relative to it are all that is needed.
const $ = (id) => document.getElementById(id);
const text = (id, words) => { $(id).textContent = words; };
const make = (tag, words, kind) => {
  const element = document.createElement(tag);
  element.textContent = words;
  if (kind) element.className = kind;
  return element;
};
const percent = (p) => (p > 0 && p < 0.005 ? "under 1 %" : p < 1 && p > 0.995 ? "over 99 %" : `${Math.round(100 * p)} %`);
const number = (x, digits = 3) => Number(x.toPrecision(digits)).toString();
// A name inside of a sentence, whose marks of direction must not turn the rest around.
const apart = (name) => `\u2068${name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "")}\u2069`;
const many = (n, one, more) => `${n} ${n === 1 ? one : more}`;

let state = null;
let shown = null;
let busy = false;

// --------------------------------------------------------------------------------- the server

const GONE = "The server does not answer. Every answer that was counted is on disk: start dm2l review again and open the new address.";

async function ask(path, body) {
  const options = { cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw new Error(GONE);
  }
  if (reply.status === 403) throw new Error("The server does not know this page: open the address that it printed.");
  const content = await reply.json().catch(() => ({}));
  if (reply.ok || reply.status === 409) return content;
  throw new Error(content.error || `The server refused this (${reply.status}).`);
}

// One thing at a time: a key pressed while an answer is on its way would be for an entry that
// nobody has seen yet.
async function during(work) {
  if (busy) return;
  busy = true;
  try {
    await work();
    $("problem").hidden = true;
  } catch (error) {
    text("problem", error.message);
    $("problem").hidden = false;
  } finally {
    busy = false;
  }
}

// ------------------------------------------------------------------------------------- showing

function show(next) {
  state = next;
  shown = next.entry;
  showAround(next);
  $("question").hidden = $("about").hidden = !shown;
  $("end").hidden = Boolean(shown);
  $("back").disabled = next.position <= 0;
  $("forward").disabled = next.position >= next.progress.decided;
  if (shown) showEntry(shown);
}

// What does not belong to the entry; a refit that ends changes this and leaves the entry alone.
function showAround({ table, progress, refitting, output }) {
  document.title = `${progress.decided}/${progress.suggested} Review ${apart(table)}`;
  text("table", table);
  $("bar").max = progress.suggested;
  $("bar").value = progress.decided;
  text("count", `${progress.decided} of ${progress.suggested}` + (progress.skipped ? ` (${progress.skipped} skipped)` : ""));
  const further = "The same command with a larger --top asks for more.";
  text("end-text", `${many(progress.answered, "entry", "entries")} answered, ${progress.skipped} skipped. Go back to change an answer, refit, or take the table. ${further}`);
  text("foreseen", progress.believed ? `The model foresaw ${progress.foreseen} of ${many(progress.believed, "answer", "answers")}.` : "Answer a few, then refit: the model learns from them and asks anew.");
  $("export").hidden = !output;
  showRefit(refitting);
}

function showEntry(entry) {
  const { probability, value, rank } = entry.belief;
  text("label", entry.label);
  text("row", `row ${entry.row}`);
  text("probability", `yes: ${percent(probability)}`);
  $("yes").style.width = `${100 * probability}%`;
  text("earlier", entry.answer ? `; you said ${entry.answer}.` : ".");
  const doubt = 4 * probability * (1 - probability);
  text("why", `Why it is asked: rank ${rank}, value ${number(value)}. The answer is uncertain (${percent(doubt)} of the most it can be) and bears on ${many(entry.n_open, "other hole", "other holes")} of this label.`);
  for (const button of document.querySelectorAll("[data-answer]")) {
    button.setAttribute("aria-pressed", String(button.dataset.answer === entry.answer));
  }
  $("columns").replaceChildren(...entry.columns.flatMap(({ name, text: words, used }) => {
    const head = make("dt", "");
    head.append(make("bdi", name));
    if (!used) head.append(make("small", "not used by the model"));
    return [head, make("dd", words || "blank", words ? "" : "quiet")];
  }));
  text("left-out", entry.n_left_out ? `${many(entry.n_left_out, "further column is", "further columns are")} not shown.` : "");
  $("others-head").hidden = !entry.others.length;
  $("others").replaceChildren(...entry.others.map(({ name, state: kind, answer, probability: p }) => {
    const item = make("li", "", kind === "open" ? "open" : answer);
    item.append(make("bdi", name), make("b", kind === "open" ? percent(p) : answer));
    item.title = { observed: "observed", answered: "answered by you", open: "open; probability of a yes" }[kind];
    return item;
  }));
}

function showRefit({ running, number: times, error, quality }) {
  $("refit").setAttribute("aria-disabled", String(running));
  $("refit").classList.toggle("running", running);
  text("refit-state", running ? "Fitting in the background; go on answering." : error ? `The refit failed: ${error}` : times && !quality ? "Fitted anew; too few labels are observed to measure the change." : times ? "Fitted anew; what is left was ranked again." : "");
  $("quality").hidden = !quality;
  if (!quality) return;
  $("measures").replaceChildren(...quality.measures.map(({ words, higher_is_better: up, before, after, change }) => {
    const line = document.createElement("tr");
    const better = (change.mean > 0) === up;
    const sure = change.low !== null && (change.low > 0 || change.high < 0);
    const size = Math.abs(change.mean).toFixed(3);
    const sign = size === "0.000" ? "" : change.mean < 0 ? "−" : "+";
    const moved = make("td", sign + size, sure ? (better ? "good" : "bad") : "");
    if (change.low !== null) moved.title = `95 % interval: ${change.low.toFixed(3)} to ${change.high.toFixed(3)}`;
    const head = make("th", `${words} ${up ? "↑" : "↓"}`);
    head.scope = "row";
    line.append(head, make("td", before.toFixed(3)), make("td", after.toFixed(3)), moved);
    return line;
  }));
  text("quality-text", `Without and with ${many(quality.n_answers, "answer", "answers")}, on ${quality.n_entries} observed labels that were kept back, mean of ${quality.repetitions}. Coloured: the 95 % interval excludes 0.`);
}

// --------------------------------------------------------------------------------------- doing

const answer = (word) => during(async () => {
  if (!shown) return;
  const { row, label } = shown;
  show(await ask("answer", { row, label, answer: word }));
  text("said", `Saved: ${word} for ${apart(label)} in row ${row}.` + (shown ? ` Next: ${apart(shown.label)} in row ${shown.row}.` : ""));
  scrollTo({ top: 0 });
});

const step = (by) => during(async () => {
  const at = state.position + by;
  if (at < 0 || at > state.progress.decided) return;
  show(await ask(`state?at=${at}`));
  text("said", shown ? `${apart(shown.label)} in row ${shown.row}.` : "");
});

const refit = () => during(async () => {
  if (state.refitting.running) return;
  await ask("refit", {});
  watch();
});

async function watch() {
  try {
    const next = await ask("state");
    state = { ...state, progress: next.progress, refitting: next.refitting };
    showAround({ ...next, progress: state.progress });
    if (next.refitting.running) setTimeout(watch, 400);
  } catch (error) {
    text("problem", error.message);
    $("problem").hidden = false;
  }
}

const exportTable = () => during(async () => {
  if (!state.output) return;
  const { path, n_answers: n } = await ask("export", {});
  text("export-state", `${many(n, "answer", "answers")} in ${path}`);
});

const keys = {
  y: () => answer("yes"),
  n: () => answer("no"),
  s: () => answer("skip"),
  u: () => step(-1),
  arrowleft: () => step(-1),
  arrowright: () => step(1),
  r: refit,
  e: exportTable,
};
addEventListener("keydown", (event) => {
  // A key that is held down answers once; on a button with the focus, too.
  if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault();
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const act = keys[event.key.toLowerCase()];
  if (!act || !state) return;
  event.preventDefault();
  act();
});
for (const button of document.querySelectorAll("[data-answer]")) {
  button.addEventListener("click", () => answer(button.dataset.answer));
}
$("back").addEventListener("click", () => step(-1));
$("forward").addEventListener("click", () => step(1));
$("refit").addEventListener("click", refit);
$("export").addEventListener("click", exportTable);

during(async () => {
  show(await ask("state"));
  if (state.refitting.running) watch();
});
