// Scores of the search: pages that teach come before indexes, the gallery and research.
const PLACES = {"guide/": 30, "start/": 20, "commands/": 15, "recipes/": 15, "help/": -20, "api": -10};
var Scorer = {
  score: ([page, title, anchor, descr, score]) => {
    const plain = (text) => text.toLowerCase().replaceAll("-", " ");
    const query = plain(new URLSearchParams(window.location.search).get("q") || "");
    if (!anchor && plain(title).includes(query)) score += 20;
    const place = Object.keys(PLACES).find((start) => page.startsWith(start));
    return score + (place ? PLACES[place] : 0) - (page.endsWith("/index") ? 20 : 0) - (anchor ? 5 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
