// Opens pages from disk in Chromium, with the network off, and tells as JSON what happened on each.
// node look.mjs '{"program": "/usr/bin/chromium", "pages": [{"file": "...", "width": 360, "scheme": "light", "axe": true}]}'
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const modules = process.env.AUDITOR_NODE_MODULES ?? new URL("./node_modules", import.meta.url).pathname;
const require = createRequire(pathToFileURL(modules + "/x.js"));
const { chromium } = require("playwright-core");
const axe = await readFile(require.resolve("axe-core"), "utf-8");
const { program, pages } = JSON.parse(process.argv[2]);

const quiet = ["gpu", "quic", "background-networking", "component-update", "sync"].map((name) => "--disable-" + name);
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--no-first-run", ...quiet] });
const seen = [];
for (const page of pages) {
  const told = { console: [], requests: [], dialogs: [] };
  const context = await browser.newContext({
    viewport: { width: page.width, height: 900 },
    colorScheme: page.scheme,
    javaScriptEnabled: page.script !== false,
    bypassCSP: page.axe === true, // axe is injected as a script
  });
  const tab = await context.newPage();
  tab.on("console", (message) => told.console.push(message.text()));
  tab.on("pageerror", (error) => told.console.push(String(error)));
  tab.on("dialog", (dialog) => { told.dialogs.push(dialog.message()); dialog.dismiss(); });
  await context.route("**/*", (route) => {
    const url = route.request().url();
    if (url === pathToFileURL(page.file).href) { return route.continue(); }
    told.requests.push(url);
    return route.abort();
  });
  await tab.goto(pathToFileURL(page.file).href);
  if (page.script !== false) {
    await tab.evaluate(() => document.querySelectorAll("details").forEach((item) => { item.open = true; }));
    for (const selector of page.click ?? []) { await tab.locator(selector).first().click(); }
    if (page.fill) { await tab.locator(page.fill[0]).fill(page.fill[1]); }
    told.pwned = await tab.evaluate(() => window.pwned ?? null);
    told.width = await tab.evaluate(() => document.documentElement.scrollWidth);
    if (page.ask) { told.answer = await tab.evaluate(page.ask); }
  }
  if (page.axe) {
    await tab.evaluate(axe);
    const found = await tab.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    told.violations = found.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 200) + " " + n.failureSummary) }));
  }
  if (page.pdf) { told.pdf = (await tab.pdf({ path: page.pdf, preferCSSPageSize: true })).length; }
  if (page.shot) { await tab.screenshot({ path: page.shot, fullPage: true }); }
  seen.push(told);
  await context.close();
}
await browser.close();
console.log(JSON.stringify(seen));
