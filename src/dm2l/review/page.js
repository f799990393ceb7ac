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
const percent = (p) => (p > 0 && p < 0.005 ? "under 1%" : p < 1 && p > 0.995 ? "over 99%" : `${Math.round(100 * p)}%`);
const number = (x, digits = 3) => Number(x.toPrecision(digits)).toString();
// Isolates a name in a sentence, so that its marks of direction do not affect the other words.
const apart = (name) => `\u2068${name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "")}\u2069`;
const many = (n, one, more) => `${n} ${n === 1 ? one : more}`;

// A name with places to break at, so that no line ends inside of a word.
const named = (name, kind = "bdi") => {
  const element = make(kind, "");
  name.split(/(?<=[_.,:;/|-])(?=[^_.,:;/|-])|(?<=[a-z])(?=[A-Z])/).forEach((part, place) => {
    if (place) element.append(document.createElement("wbr"));
    element.append(part);
  });
  return element;
};

let state = null;
let shown = null;
let busy = false;
let queue = "entries";
let given = {}; // answers to the row on the page
let saved = {}; // those of them that are saved
let warned = ""; // what the page warned about since the last answer
let follows = {}; // the labels of that row that follow from them
let here = 0;
let letters = {}; // the keys of the answers on the page

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

function show(next, words = "") {
  state = next;
  shown = next.entry;
  queue = next.queue;
  showAround(next);
  text("said", words || (shown && shown.answer ? `You answered ${wordOf(shown.answer)}. A new answer replaces it.` : ""));
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
function showAround({ table, progress, refit: refitting, label_errors: search, sample, output }) {
  document.title = `${progress.decided}/${progress.suggested} Review ${apart(table)}`;
  $("table").replaceChildren(named(table));
  $("bar").max = Math.max(1, progress.suggested);
  $("bar").value = progress.decided;
  if (queue === "sample" && sample) {
    $("bar").max = sample.size;
    $("bar").value = sample.checked;
    text("count", `${sample.checked} of ${sample.size} of the sample`);
  } else text("count", `${progress.decided} of ${progress.suggested}: ${progress.answered} saved, ${progress.skipped} skipped` + (progress.implied ? `, ${progress.implied} by rules` : ""));
  document.querySelector("[data-queue=sample]").hidden = !sample;
  const further = "To continue, run the same command with a larger --top.";
  const looking = search.running ? "You can continue in another mode." : search.error || `${search.done ? "No further label is suspected. " : ""}You checked ${many(progress.checked, "label", "labels")} and corrected ${progress.corrected}.`;
  text("end-head", queue === "label_errors" && search.running ? "Searching for label errors" : "No questions left");
  if (queue === "label_errors") text("end-text", looking);
  else if (queue === "sample" && sample) text("end-text", `The sample is complete. ${sample.rates.join(" ")} Next, press Ctrl-C in the terminal. It prints the command that writes the answers and these rates.`);
  else text("end-text", `You answered ${many(progress.answered, "question", "questions")} and skipped ${progress.skipped}. You can go back to change an answer, refit the model, or download the table. ${further}`);
  text("correct", progress.predicted ? `The model predicted ${progress.correct} of ${many(progress.predicted, "answer", "answers")} correctly.` : "Answer some questions, then refit the model to learn from them.");
  $("export").hidden = !output;
  // Agreement with the model would influence the answers, and the sample belongs to this model.
  $("learnt").hidden = Boolean(sample) && sample.checked < sample.size;
  showRefit(refitting);
}

// The answers to a question, or to a label of a row: what is sent, what the button says, and the
// probability of a value. A column with several values is one question with a button per value.
const optionsOf = ({ choices }) => [
  ...(choices.length ? choices.map(([value, p]) => ({ word: `=${value}`, says: value, p })) : [{ word: "yes", says: "Yes" }, { word: "no", says: "No" }]),
  { word: "skip", says: "Skip" },
];
const wordOf = (word) => (word.startsWith("=") ? word.slice(1) : word);
// The probability of a yes, or the most probable value of a column with its probability.
const chance = (p, choices) => {
  if (!choices.length) return p === null ? "" : percent(p);
  const [value, most] = choices.reduce((one, other) => (other[1] > one[1] ? other : one));
  return `${value} ${percent(most)}`;
};

function showEntry(entry) {
  const whole = queue === "rows";
  const blind = queue === "sample";
  text("name", entry.name || `Row ${entry.row}`);
  text("row", entry.name ? `row ${entry.row}` : "");
  const called = make("bdi", entry.name || `row ${entry.row}`);
  if (whole) $("asked").replaceChildren("Which labels does ", called, " have?");
  else if (entry.choices.length) $("asked").replaceChildren("Which value of ", named(entry.label), " does ", called, " have?");
  else $("asked").replaceChildren("Does ", called, entry.tag ? " have the tag " : " have ", named(entry.tag || entry.label), "?");
  $("question").classList.toggle("single", !whole);
  $("answers").hidden = whole;
  $("whole").hidden = !whole;
  $("blind").hidden = !blind;
  $("prediction").hidden = whole || blind || (entry.choices.length > 0 && !entry.observed);
  $("prediction").classList.toggle("plain", !entry.prediction);
  $("value").hidden = whole || blind || !entry.prediction;
  if (entry.prediction) showPrediction(entry.prediction, entry.choices.length > 0);
  else if (!whole) showLabelError(entry);
  showAnswers(entry, blind);
  showColumns(entry, blind);
  const asked = whole ? entry.others.filter(({ state: kind }) => kind === "open" || kind === "answered") : [];
  showMissing(asked);
  showOthers(entry.others.filter((other) => !asked.includes(other)), blind);
}

function showAnswers(entry, blind) {
  const focused = [...$("answers").children].indexOf(document.activeElement);
  letters = {};
  const free = (says) => [...says.toLowerCase()].find((letter) => /[a-z]/.test(letter) && !letters[letter] && !(entry.choices.length && "snuer".includes(letter)));
  $("answers").replaceChildren(...optionsOf(entry).map(({ word, says, p }) => {
    const button = make("button", says);
    const letter = word === "skip" ? "s" : free(says);
    button.type = "button";
    button.dataset.answer = word;
    if (letter) {
      letters[letter] = word;
      button.setAttribute("aria-keyshortcuts", letter);
      button.append(" ", make("kbd", letter));
    }
    if (p !== undefined && !blind) button.append(make("br", ""), percent(p));
    button.setAttribute("aria-pressed", String(word === entry.answer));
    button.addEventListener("click", () => answer(word));
    return button;
  }));
  if (focused >= 0) $("answers").children[Math.min(focused, $("answers").children.length - 1)].focus();
}

function showPrediction({ probability: p, value, rank, own, row, others }, several) {
  $("yes").style.width = `${100 * p}%`;
  text("probability", `The model predicts yes with ${percent(p)}.`);
  text("observed", "");
  // An answer to a column with several values settles all its labels, so they are one sum.
  const parts = several ? `${number(own + row, 2)} in this row` : `${number(own, 2)} here, ${number(row, 2)} in other missing labels of this row`;
  text("why", `Rank ${rank} among the open questions. An answer is expected to avoid ${number(value, 2)} wrong labels: ${parts}, ${number(others, 2)} in other rows.`);
}

function showLabelError({ observed, error_probability: p }) {
  text("observed", observed ? `The label in the table is ${observed}.` : "The table has no answer.");
  const what = observed ? "The model contradicts this label, which is wrong" : "It is an overlooked yes";
  text("probability", p ? `${what} with probability ${percent(p)}.` : "");
}

function showColumns({ columns, n_first: first, n_left_out: left, label, choices }, blind) {
  const one = label && !choices.length;
  const lines = columns.map(({ name, text: words, used, weight }) => {
    const head = make("dt", "");
    head.append(named(name));
    const speaks = one ? `${weight > 0 ? "for yes" : "for no"}: ${number(Math.abs(weight), 2)}` : `influence: ${number(weight, 2)}`;
    const note = blind ? "" : !used ? "not used by the model" : weight ? speaks : "";
    if (note) head.append(make("small", note, one && used ? (weight > 0 ? "good" : "bad") : ""));
    return [head, make("dd", words || "blank", words ? "" : "quiet")];
  });
  const told = !blind && columns.some(({ weight }) => weight);
  const moves = "how far the value, compared with the mean of its column, moves the";
  text("weights", !told ? "" : one ? `For yes, for no: ${moves} score of the label.` : `Influence: ${moves} scores of the ${label ? "values" : "missing labels"}.`);
  $("columns").replaceChildren(...lines.slice(0, first).flat());
  $("more").replaceChildren(...lines.slice(first).flat());
  $("rest").hidden = lines.length <= first;
  text("rest-head", many(lines.length - first, "further column", "further columns"));
  text("left-out", left ? `${many(left, "column is", "columns are")} not shown.` : "");
}

function showOthers(others, blind) {
  if (!others.length) $("beside").hidden = true;
  const open = blind ? [] : others.filter(({ state: kind }) => kind === "open");
  const moves = open.some(({ if_yes: yes }) => yes !== null);
  text("settles", moves ? "For missing labels: the probability of yes now → after your answer yes / no." : "");
  const chip = ({ name, state: kind, answer: word, probability: p, if_yes: yes, if_no: no, choices }) => {
    const item = make("li", "", kind === "open" ? "open" : `${word} ${kind === "implied" ? "follows" : ""}`);
    const after = kind === "open" && yes !== null ? ` → ${percent(yes)} / ${percent(no)}` : "";
    item.append(named(name), make("b", kind === "open" ? chance(p, choices) + after : kind === "implied" ? `${wordOf(word)}, by rules` : wordOf(word)));
    item.title = { observed: "observed", answered: "answered by you", implied: "follows from other labels of the row", open: choices.length ? "missing; the most probable value" : "missing; probability of a yes" }[kind];
    return item;
  };
  $("open").replaceChildren(...open.map(chip));
  const known = others.filter(({ state: kind }) => kind !== "open");
  known.sort((a, b) => (a.answer < b.answer) - (a.answer > b.answer)); // yes first
  $("others").replaceChildren(...known.map(chip));
}

// Shows the missing labels of a row, each with its prediction and its answers.
function showMissing(asked) {
  given = Object.fromEntries(asked.filter(({ answer: word }) => word).map(({ name, answer: word }) => [name, word]));
  saved = { ...given };
  here = 0;
  $("missing").replaceChildren(...asked.map(({ name, probability: p, choices }, place) => {
    const line = document.createElement("tr");
    line.dataset.name = name;
    const head = make("th", "");
    head.scope = "row";
    head.append(named(name));
    const buttons = make("td", "");
    for (const { word, says } of optionsOf({ choices })) {
      const button = make("button", word === `=${says}` ? says : says.toLowerCase());
      button.type = "button";
      button.dataset.word = word;
      button.addEventListener("click", () => { here = place; mark(word); });
      buttons.append(button);
    }
    line.append(head, make("td", chance(p, choices), "quiet"), buttons);
    return line;
  }));
  showGiven({});
}

function showGiven(implied) {
  follows = implied;
  warned = "";
  const lines = [...$("missing").children];
  lines.forEach((line, place) => {
    line.classList.toggle("here", place === here);
    for (const button of line.querySelectorAll("[data-word]")) {
      const { word } = button.dataset;
      const due = implied[line.dataset.name] === word;
      button.setAttribute("aria-pressed", String(given[line.dataset.name] === word));
      button.classList.toggle("follows", due);
      button.title = due ? "follows from the other labels of the row" : "";
    }
  });
  const n = lines.filter(({ dataset: { name } }) => given[name]).length;
  text("marked", `${n} of ${lines.length} answered, not saved yet`);
}

// Whether to do what would lose something: only if it is asked for again after this warning.
function sure(words) {
  if (warned === words) return true;
  warned = words;
  text("marked", words);
  $("marked").scrollIntoView({ block: "nearest" });
  return false;
}

const unsaved = () => (queue === "rows" && shown ? Object.keys(given).filter((name) => given[name] !== saved[name]).length : 0);
const leaves = () => !unsaved() || sure(`${many(unsaved(), "answer is", "answers are")} not saved. Save the row, or repeat this to discard them.`);

const mark = (word) => during(async () => {
  const lines = [...$("missing").children];
  if (!lines.length || ![...lines[here].querySelectorAll("button")].some((button) => button.dataset.word === word)) return;
  const answers = { ...given, [lines[here].dataset.name]: word };
  const found = await ask("suppose", { row: shown.row, answers });
  given = answers;
  here = Math.min(here + 1, lines.length - 1);
  showGiven(found.implied);
  for (const line of lines) {
    const p = found.probabilities[line.dataset.name];
    line.children[1].textContent = p === undefined ? "" : Array.isArray(p) ? chance(null, p) : percent(p);
  }
});

const saveRow = () => during(async () => {
  if (queue !== "rows" || !shown) return;
  const { row, name } = shown;
  const lines = [...$("missing").children];
  if (!Object.keys(given).length && !sure("No label is answered. Save again to skip them all.")) return;
  const open = lines.filter(({ dataset: { name } }) => given[name] || !follows[name]);
  const answers = Object.fromEntries(open.map(({ dataset }) => [dataset.name, given[dataset.name] || "skip"]));
  const skipped = Object.values(answers).filter((word) => word === "skip").length;
  show(await ask("answer", { row, answers, queue }), `${apart(name || `Row ${row}`)}: ${open.length - skipped} saved, ${skipped} skipped.`);
  scrollTo({ top: 0 });
});

const move = (by) => {
  here = Math.max(0, Math.min($("missing").children.length - 1, here + by));
  [...$("missing").children].forEach((line, place) => line.classList.toggle("here", place === here));
};

function showRefit({ running, number: times, error, quality }) {
  $("refit").setAttribute("aria-disabled", String(running));
  $("refit").classList.toggle("running", running);
  text("refit-state", running ? "Fitting the model in the background. You can continue to answer." : error ? `The refit failed: ${error}` : times && !quality ? "The model was refitted. The change cannot be measured, because too few labels are observed or none is a no." : times ? "The model was refitted, and the open questions were ranked again." : "");
  $("quality").hidden = !quality;
  if (!quality) return;
  $("measures").replaceChildren(...quality.measures.map(({ words, higher_is_better: up, before, after, change }) => {
    const line = document.createElement("tr");
    const better = (change.mean > 0) === up;
    const size = Math.abs(change.mean).toFixed(2);
    // A change that rounds to 0 is no better or worse, even if it is the same in all repetitions.
    const sure = size !== "0.00" && change.low !== null && (change.low > 0 || change.high < 0);
    const sign = size === "0.00" ? "" : change.mean < 0 ? "−" : "+";
    const moved = make("td", sign + size, sure ? (better ? "good" : "bad") : "");
    if (change.low !== null) moved.title = `95% interval: ${change.low.toFixed(3)} to ${change.high.toFixed(3)}`;
    const head = make("th", `${words} ${up ? "↑" : "↓"}`);
    head.scope = "row";
    line.append(head, make("td", before.toFixed(2)), make("td", after.toFixed(2)), moved);
    return line;
  }));
  text("quality-text", `The table compares models without and with ${many(quality.n_answers, "answer", "answers")} on ${quality.n_entries} held-out labels (means of ${quality.repetitions} repetitions). Changes are coloured if they are at least 0.01 and their 95% interval excludes 0.`);
}

// --------------------------------------------------------------------------------------- doing

const answer = (word) => (queue === "rows" ? mark(word) : during(async () => {
  if (!shown || !optionsOf(shown).some((one) => one.word === word)) return;
  const { row, label, name } = shown;
  const next = await ask("answer", { row, answers: { [label]: word }, queue });
  const implied = Object.entries(next.implied);
  const follow = implied.length ? ` So ${implied.map(([other, value]) => `${apart(other)} is ${wordOf(value)}`).join(", ")}.` : "";
  show(next, `Saved for ${apart(name || `row ${row}`)}: ${apart(label)} is ${word === "skip" ? "skipped" : wordOf(word)}.${follow}`);
  scrollTo({ top: 0 });
}));

const step = (by) => during(async () => {
  const at = state.position + by;
  if (at < 0 || at > state.made || !leaves()) return;
  show(await ask(`state?queue=${queue}&at=${at}`));
});

const turnTo = (name) => during(async () => {
  if ((name === "sample" && !state.sample) || !leaves()) return;
  queue = name;
  if (name === "label_errors" && !state.label_errors.done && !state.label_errors.running) await ask("label_errors", {});
  show(await ask(`state?queue=${name}`));
  scrollTo({ top: 0 });
  if (state.label_errors.running) watch();
});

const refit = () => during(async () => {
  if (state.refit.running || $("learnt").hidden) return;
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
  const without = unsaved() ? ", without the unsaved answers to this row" : "";
  text("export-state", `Wrote ${many(n, "label", "labels")} to ${path}${without}.`);
  // With many columns, this line would be below the visible part of the page.
  $("export-state").scrollIntoView({ block: "nearest" });
});

const keys = {
  y: () => answer("yes"), // in whole rows; other questions have letters of their own
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
  4: () => turnTo("sample"),
  arrowup: () => move(-1),
  arrowdown: () => move(1),
  enter: saveRow,
};
addEventListener("keydown", (event) => {
  // A key that is held down answers only once, also on a focused button.
  if (event.repeat && (event.key === "Enter" || event.key === " ")) event.preventDefault();
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const key = event.key.toLowerCase();
  const act = queue !== "rows" && letters[key] ? () => answer(letters[key]) : keys[key];
  if (!act || !state) return;
  // Up, Down and Enter keep their usual meaning, except in the mode for whole rows.
  if (event.key.length > 2 && /Enter|Up|Down/.test(event.key) && (queue !== "rows" || (event.key === "Enter" && event.target.closest("button:not([aria-pressed=true]), a, summary")))) return;
  event.preventDefault();
  act();
});
// In whole rows, only buttons that were reached by keyboard keep the focus, and with it Enter.
addEventListener("click", (event) => { if (event.detail && queue === "rows") event.target.closest("button")?.blur(); });
$("back").addEventListener("click", () => step(-1));
$("forward").addEventListener("click", () => step(1));
for (const button of document.querySelectorAll("[data-queue]")) {
  button.addEventListener("click", () => turnTo(button.dataset.queue));
}
$("save").addEventListener("click", saveRow);
$("refit").addEventListener("click", refit);
$("export").addEventListener("click", exportTable);

during(async () => {
  const first = await ask("state");
  show(first.sample ? await ask("state?queue=sample") : first);
  if (state.refit.running || state.label_errors.running) watch();
});
