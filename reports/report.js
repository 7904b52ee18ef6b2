"use strict";
// The report reads without this script: it adds copy buttons, a filter, and opens what a link points at or a printer needs.
(function () {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  all(".cmd").forEach((box) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(box.querySelector("code").textContent).then(
        () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); },
        () => { getSelection().selectAllChildren(box.querySelector("code")); button.textContent = "Selected"; }
      );
    });
    box.append(button);
  });

  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  open();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    opened.forEach((item) => { item.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((item) => { item.open = false; }));

  const filter = document.getElementById("filter");
  const count = document.getElementById("filter-count");
  const sections = all(".owner").map((section) => ({
    section,
    name: section.querySelector("h3").textContent.toLowerCase(),
    cards: all(".card", section).map((card) => ({ card, text: card.textContent.toLowerCase() })),
  }));
  if (sections.length) { filter.parentElement.hidden = false; }
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    sections.forEach(({ section, name, cards }) => {
      let left = 0;
      cards.forEach(({ card, text }) => {
        card.hidden = !words.every((word) => text.includes(word) || name.includes(word));
        left += card.hidden ? 0 : 1;
      });
      section.hidden = left === 0;
      found += left;
    });
    count.textContent = words.length ? found + " shown" : "";
  });
})();
