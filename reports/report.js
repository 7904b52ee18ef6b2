"use strict";
// The report reads without this script: it adds copy buttons, sorting, a filter, and opens what a link or a printer needs.
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

  // A click on a heading sorts its column: figures by what they are, down first; a second click turns the order.
  const figure = (cell) => {
    const exact = cell.querySelector("[title]");
    const text = (exact && cell.classList.contains("n") ? exact.title : cell.textContent).replace(/[\s\u00a0,]/g, "").replace("−", "-");
    const found = /-?\d+(\.\d+)?/.exec(text);
    return found ? Number(found[0]) : -Infinity;
  };
  all("table.sortable").forEach((table) => {
    const body = table.tBodies[0];
    if (!table.tHead || body.rows.length < 2) { return; }
    Array.from(table.tHead.rows[0].cells).forEach((head, i) => {
      if (head.classList.contains("pic")) { return; }
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const counts = head.classList.contains("n");
        const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : counts;
        const rows = Array.from(body.rows);
        const value = (row) => (counts ? figure(row.cells[i]) : row.cells[i].textContent.trim().toLowerCase());
        rows.sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          const order = counts ? x - y || 0 : x.localeCompare(y);
          return down ? -order : order;
        });
        body.append(...rows);
        Array.from(table.tHead.rows[0].cells).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
      });
    });
  });

  const every = document.getElementById("open-all");
  every.addEventListener("click", () => {
    const cards = all(".card").filter((card) => !card.hidden);
    const close = cards.every((card) => card.open);
    cards.forEach((card) => { card.open = !close; });
    every.textContent = close ? "Open all" : "Close all";
  });

  const filter = document.getElementById("filter");
  const count = document.getElementById("filter-count");
  const sections = all(".owner").map((section) => ({
    section,
    name: section.querySelector("h3").textContent.toLowerCase(),
    cards: all(".card, tr[id^=f-]", section).map((card) => ({ card, text: card.textContent.toLowerCase() })),
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
