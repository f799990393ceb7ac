"use strict";
// Values from the table are inserted as text, never as markup. All addresses are relative, because
// the address of the page contains the token.
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
// Isolates a name in a sentence, so that its marks of direction do not affect the other words.
const apart = (name) => `\u2068${name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "")}\u2069`;
const many = (n, one, more) => `${n} ${n === 1 ? one : more}`;

let state = null;
let shown = null;
let busy = false;
let queue = "entries";
let given = {}; // answers to the row on the page that are not saved yet
let here = 0;

// --------------------------------------------------------------------------------- the server

const GONE = "The server does not answer. All answers that were counted are saved. Start dm2l review again and open the new address.";

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
  if (reply.status === 403) throw new Error("The address of this page is not valid any more. Open the address that dm2l review printed.");
  const content = await reply.json().catch(() => ({}));
  if (reply.ok || reply.status === 409) return content;
  throw new Error(content.error || `The server refused the request (status ${reply.status}). Reload the page.`);
}

// Runs one request at a time: a key that is pressed while an answer is being saved would answer a
// question that is not on the page yet.
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
  queue = next.queue;
  showAround(next);
  $("question").hidden = $("about").hidden = $("beside").hidden = !shown;
  $("end").hidden = Boolean(shown);
  $("back").disabled = next.position <= 0;
  $("forward").disabled = next.position >= next.made;
  for (const button of document.querySelectorAll("[data-queue]")) {
    button.setAttribute("aria-pressed", String(button.dataset.queue === queue));
  }
  if (shown) showEntry(shown);
}

// Shows everything except the question, which stays the same when a refit ends.
function showAround({ table, progress, refit: refitting, label_errors: search, output }) {
  document.title = `${progress.decided}/${progress.suggested} Review ${apart(table)}`;
  text("table", table);
  $("bar").max = Math.max(1, progress.suggested);
  $("bar").value = progress.decided;
  text("count", `${progress.decided} of ${progress.suggested}` + (progress.skipped ? ` (${progress.skipped} skipped)` : ""));
  const further = "To continue, run the same command with a larger --top.";
  const looking = search.running ? "Searching for label errors. You can continue in another mode." : search.error || `${many(progress.checked, "label", "labels")} checked, ${progress.corrected} corrected.`;
  if (queue === "label_errors") text("end-text", looking);
  else text("end-text", `${many(progress.answered, "entry", "entries")} answered, ${progress.skipped} skipped. You can go back to change an answer, refit the model, or download the table. ${further}`);
  text("correct", progress.predicted ? `The model predicted ${progress.correct} of ${many(progress.predicted, "answer", "answers")} correctly.` : "Answer some questions, then refit the model to learn from them.");
  $("export").hidden = !output;
  showRefit(refitting);
}

function showEntry(entry) {
  const whole = queue === "rows";
  text("label", whole ? `Row ${entry.row}` : entry.label);
  text("row", whole ? "" : `row ${entry.row}`);
  $("single").hidden = whole;
  $("whole").hidden = !whole;
  text("earlier", entry.answer ? `; you said ${entry.answer}.` : ".");
  if (entry.prediction) showPrediction(entry.prediction);
  else if (!whole) showLabelError(entry);
  for (const button of document.querySelectorAll("[data-answer]")) {
    button.setAttribute("aria-pressed", String(button.dataset.answer === entry.answer));
  }
  showColumns(entry);
  const asked = whole ? entry.others.filter(({ state: kind }) => kind !== "observed") : [];
  showMissing(asked);
  showOthers(entry.others.filter((other) => !asked.includes(other)));
}

function showPrediction({ probability, value, rank, own, row, others }) {
  text("predicted", "The model predicts ");
  text("probability", `yes: ${percent(probability)}`);
  $("yes").style.width = `${100 * probability}%`;
  text("why", `Rank ${rank} among the open questions. An answer is expected to avoid ${number(value, 2)} wrong labels: ${number(own, 2)} here, ${number(row, 2)} in other missing labels of this row, ${number(others, 2)} in other rows.`);
}

function showLabelError({ observed, error_probability: p }) {
  text("predicted", "The table says ");
  text("probability", observed);
  $("yes").style.width = `${100 * p}%`;
  text("why", `According to the features and the other labels of the row, this label is wrong with a probability of ${percent(p)}. Which answer is right?`);
}

function showColumns({ columns, n_first: first, n_left_out: left, label }) {
  const lines = columns.map(({ name, text: words, used, weight }) => {
    const head = make("dt", "");
    head.append(make("bdi", name));
    const speaks = label ? `${weight > 0 ? "for yes" : "for no"}: ${number(Math.abs(weight), 2)}` : `weight ${number(weight, 2)}`;
    const note = !used ? "not used by the model" : weight ? speaks : "";
    if (note) head.append(make("small", note, label && used ? (weight > 0 ? "good" : "bad") : ""));
    return [head, make("dd", words || "blank", words ? "" : "quiet")];
  });
  $("columns").replaceChildren(...lines.slice(0, first).flat());
  $("more").replaceChildren(...lines.slice(first).flat());
  $("rest").hidden = lines.length <= first;
  text("rest-head", many(lines.length - first, "further column", "further columns"));
  text("left-out", left ? `${many(left, "column is", "columns are")} not shown.` : "");
}

function showOthers(others) {
  $("others-head").hidden = !others.length;
  const open = others.filter(({ state: kind }) => kind === "open");
  const moves = open.some(({ if_yes: yes }) => yes !== null);
  text("settles", moves ? "Missing labels show the probability of a yes: now → if you answer yes / no." : "");
  const chip = ({ name, state: kind, answer: word, probability: p, if_yes: yes, if_no: no }) => {
    const item = make("li", "", kind === "open" ? "open" : word);
    const after = kind === "open" && yes !== null ? ` → ${percent(yes)} / ${percent(no)}` : "";
    item.append(make("bdi", name), make("b", kind === "open" ? percent(p) + after : word));
    item.title = { observed: "observed", answered: "answered by you", open: "missing; probability of a yes" }[kind];
    return item;
  };
  $("open").replaceChildren(...open.map(chip));
  const known = others.filter(({ state: kind }) => kind !== "open");
  known.sort((a, b) => (a.answer < b.answer) - (a.answer > b.answer)); // yes first
  $("others").replaceChildren(...known.map(chip));
}

// Shows the missing labels of a row, each with its prediction and three answers.
function showMissing(asked) {
  given = Object.fromEntries(asked.filter(({ answer: word }) => word).map(({ name, answer: word }) => [name, word]));
  here = 0;
  $("missing").replaceChildren(...asked.map(({ name, probability: p }, place) => {
    const line = document.createElement("tr");
    line.dataset.name = name;
    const head = make("th", "");
    head.scope = "row";
    head.append(make("bdi", name));
    const buttons = make("td", "");
    for (const word of ["yes", "no", "skip"]) {
      const button = make("button", word);
      button.type = "button";
      button.dataset.word = word;
      button.addEventListener("click", () => { here = place; mark(word); });
      buttons.append(button);
    }
    line.append(head, make("td", p === null ? "" : percent(p), "quiet"), buttons);
    return line;
  }));
  showGiven();
}

function showGiven() {
  [...$("missing").children].forEach((line, place) => {
    line.classList.toggle("here", place === here);
    for (const button of line.querySelectorAll("[data-word]")) {
      button.setAttribute("aria-pressed", String(given[line.dataset.name] === button.dataset.word));
    }
  });
}

const mark = (word) => during(async () => {
  const lines = [...$("missing").children];
  if (!lines.length) return;
  given[lines[here].dataset.name] = word;
  here = Math.min(here + 1, lines.length - 1);
  showGiven();
  const predicted = await ask("suppose", { row: shown.row, answers: given });
  for (const line of lines) {
    const p = predicted[line.dataset.name];
    line.children[1].textContent = p === undefined ? "" : percent(p);
  }
});

const saveRow = () => during(async () => {
  if (queue !== "rows" || !shown) return;
  const { row } = shown;
  const answers = Object.fromEntries([...$("missing").children].map(({ dataset: { name } }) => [name, given[name] || "skip"]));
  show(await ask("answers", { row, answers }));
  text("said", `Saved: ${many(Object.keys(answers).length, "label", "labels")} of row ${row}.`);
  scrollTo({ top: 0 });
});

const move = (by) => {
  here = Math.max(0, Math.min($("missing").children.length - 1, here + by));
  showGiven();
};

function showRefit({ running, number: times, error, quality }) {
  $("refit").setAttribute("aria-disabled", String(running));
  $("refit").classList.toggle("running", running);
  text("refit-state", running ? "Fitting the model in the background. You can continue to answer." : error ? `The refit failed: ${error}` : times && !quality ? "The model was refitted. Too few labels are observed to measure the change." : times ? "The model was refitted, and the open questions were ranked again." : "");
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
  text("quality-text", `Models without and with ${many(quality.n_answers, "answer", "answers")}, evaluated on ${quality.n_entries} held-out labels, mean of ${quality.repetitions} repetitions. Coloured changes have a 95 % interval that excludes 0.`);
}

// --------------------------------------------------------------------------------------- doing

const answer = (word) => (queue === "rows" ? mark(word) : during(async () => {
  if (!shown) return;
  const { row, label } = shown;
  show(await ask("answer", { row, label, answer: word }));
  text("said", `Saved: ${word} for ${apart(label)} in row ${row}.` + (shown ? ` Next: ${apart(shown.label)} in row ${shown.row}.` : ""));
  scrollTo({ top: 0 });
}));

const step = (by) => during(async () => {
  const at = state.position + by;
  if (at < 0 || at > state.made) return;
  show(await ask(`state?queue=${queue}&at=${at}`));
  text("said", shown ? `${shown.label ? apart(shown.label) : "All"} in row ${shown.row}.` : "");
});

const turnTo = (name) => during(async () => {
  queue = name;
  if (name === "label_errors" && !state.label_errors.done && !state.label_errors.running) await ask("label_errors", {});
  show(await ask(`state?queue=${name}`));
  if (state.label_errors.running) watch();
});

const refit = () => during(async () => {
  if (state.refit.running) return;
  await ask("refit", {});
  watch();
});

async function watch() {
  try {
    const next = await ask(`state?queue=${queue}`);
    state = { ...state, progress: next.progress, refit: next.refit, label_errors: next.label_errors };
    showAround(next);
    if (queue === "label_errors" && !shown && next.entry && !busy) show(next);
    if (next.refit.running || next.label_errors.running) setTimeout(watch, 400);
  } catch (error) {
    text("problem", error.message);
    $("problem").hidden = false;
  }
}

const exportTable = () => during(async () => {
  if (!state.output) return;
  const { path, n_answers: n } = await ask("export", {});
  text("export-state", `Written: ${many(n, "answer", "answers")} in ${path}`);
  // With many columns, this line would be below the visible part of the page.
  $("export-state").scrollIntoView({ block: "nearest" });
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
  1: () => turnTo("entries"),
  2: () => turnTo("rows"),
  3: () => turnTo("label_errors"),
  arrowup: () => move(-1),
  arrowdown: () => move(1),
  enter: saveRow,
};
addEventListener("keydown", (event) => {
  // A key that is held down answers only once, also on a focused button.
  if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault();
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const act = keys[event.key.toLowerCase()];
  if (!act || !state) return;
  // Up, Down and Enter keep their usual meaning, except in the mode for whole rows.
  if (event.key.length > 2 && /Enter|Up|Down/.test(event.key) && (queue !== "rows" || (event.key === "Enter" && event.target.closest("button, a, summary")))) return;
  event.preventDefault();
  act();
});
for (const button of document.querySelectorAll("[data-answer]")) {
  button.addEventListener("click", () => answer(button.dataset.answer));
}
$("back").addEventListener("click", () => step(-1));
$("forward").addEventListener("click", () => step(1));
for (const button of document.querySelectorAll("[data-queue]")) {
  button.addEventListener("click", () => turnTo(button.dataset.queue));
}
$("save").addEventListener("click", saveRow);
$("refit").addEventListener("click", refit);
$("export").addEventListener("click", exportTable);

during(async () => {
  show(await ask("state"));
  if (state.refit.running || state.label_errors.running) watch();
});
