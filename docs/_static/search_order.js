/* How the search sorts pages. Sphinx gives a page the same score for one mention of a word and for many, so pages that
 * mention everything once come after the pages that are about a thing. The other numbers are Sphinx's defaults. */
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score - (["docs/architecture", "docs/reports", "docs/papers", "bench/README", "CONTRIBUTING"].includes(page) ? 3 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
