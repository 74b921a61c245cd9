"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const form = document.getElementById("choices");
  const views = new Map();

  // Split a text into lines of at most this many characters; a longer word is broken.
  const wrapped = (text, most) => text.split(" ")
    .flatMap((word) => word.match(new RegExp(`.{1,${most}}`, "gu")) ?? [word])
    .reduce((lines, word) => {
      const last = lines[lines.length - 1];
      if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
      else lines.push(word);
      return lines;
    }, []);

  const shown = () => {
    if (!form) return content.lines.map((entry) => entry.line);
    const ticked = {};
    for (const box of form.elements) {
      if (box.type === "checkbox" && box.checked) (ticked[box.name] ??= new Set()).add(box.value);
    }
    return content.lines
      .filter(({ values }) => Object.entries(values).every(([name, value]) => ticked[name]?.has(value)))
      .map((entry) => entry.line);
  };

  // The shown curves of a chart that has only some curves; all of its curves where none is shown, as it is hidden then.
  const within = (chart, lines) => {
    const here = chart.lines ? lines.filter((line) => chart.lines.includes(line)) : lines;
    return here.length ? here : chart.lines ?? [];
  };

  // How many lines the longest name above a bar takes.
  const mostLines = (spec, most) =>
    Math.max(1, ...Object.values(spec.datasets).flat().map((row) => (row.name ? wrapped(row.name, most).length : 1)));

  const specification = (chart, place, lines) => {
    const width = place.clientWidth;
    const spec = structuredClone(chart.spec);
    spec.datasets = Object.fromEntries(chart.data.map((name) => [name, content.datasets[name]]));
    spec.autosize = { type: "fit-x", contains: "padding" };
    spec.title = {
      // The width of a character in pixels, next to the button in the corner.
      text: wrapped(chart.title, Math.floor((width - 60) / 10.4)),
      subtitle: wrapped(chart.subtitle, Math.floor((width - 60) / 7.5)),
    };
    const longest = Math.max(24, ...lines.map((line) => line.length));
    // A character has at most 7.5 pixels, and a symbol 30. A legend begins where the axis does; names begin at the edge.
    const columns = Math.max(1, Math.min(4, Math.floor((width - 76) / (longest * 7.5 + 30))));
    const signals = {
      [content.shown]: lines,
      [content.columns]: columns,
      [content.characters]: Math.max(8, Math.floor(((width - 76) / columns - 30) / 7.5)),
      [content.rowCharacters]: Math.max(8, Math.floor((width - 32) / 7.5)),
    };
    for (const param of spec.params) if (param.name in signals) param.value = signals[param.name];
    if (spec.height.step) spec.height.step += 14 * (mostLines(spec, signals[content.rowCharacters]) - 1);
    return spec;
  };

  const draw = async (place) => {
    const chart = content.charts[place.dataset.chart];
    views.get(place)?.finalize();
    const result = await vegaEmbed(place, specification(chart, place, within(chart, shown())), {
      renderer: "svg",
      config: content.themes[dark.matches ? "dark" : "light"],
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: place.dataset.chart,
      tooltip: { theme: dark.matches ? "dark" : "light" },
    });
    views.set(place, result);
    place.dataset.drawn = place.clientWidth;
  };

  const places = [...document.querySelectorAll(".chart")];
  const drawAll = () => Promise.all(places.map(draw));
  // Titles are wrapped and legends laid out for one width; a small change of width needs no new layout.
  const outgrown = (place) => place.clientWidth > 0 && Math.abs(place.clientWidth - place.dataset.drawn) > 24;
  const fitAll = () => Promise.all(places.filter(outgrown).map(draw));

  const choose = () => {
    const lines = shown();
    const kept = new Set(lines);
    for (const [place, { view }] of views) {
      const chart = content.charts[place.dataset.chart];
      if (chart.lines) place.parentElement.hidden = !chart.lines.some((line) => kept.has(line));
      view.signal(content.shown, within(chart, lines)).runAsync();
    }
    for (const row of document.querySelectorAll("[data-line]")) row.hidden = !kept.has(content.lines[row.dataset.line].line);
    const status = document.getElementById("shown");
    if (status) status.textContent = `${lines.length} of ${content.lines.length} curves are shown`;
    return fitAll(); // a chart next to a hidden one takes its space, too
  };

  const valueOf = (cell) => cell.dataset.value ?? cell.textContent;

  const sortBy = (heading) => {
    const table = heading.closest("table");
    const body = table.tBodies[0];
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const numeric = heading.classList.contains("number");
    // Unmeasured values come last in both directions.
    const missing = (row) => numeric && Number.isNaN(Number(valueOf(row.cells[column])));
    const order = (a, b) => {
      const [x, y] = [valueOf(a.cells[column]), valueOf(b.cells[column])];
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const ahead = numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
      return down ? -ahead : ahead;
    };
    body.append(...[...body.rows].sort(order));
  };

  const visibleRows = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  // A figure with an interval takes three columns, as in the files that `paceline study --csv` writes.
  const asCsv = (table) => {
    const rows = visibleRows(table);
    const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const wide = headings.map((_, column) => rows.some((row) => row.cells[column].dataset.low !== undefined));
    const numeric = [...table.tHead.rows[0].cells].map((cell) => cell.classList.contains("number"));
    const plain = (cell, column) => cell.dataset.value ?? (numeric[column] && Number.isNaN(Number(cell.textContent)) ? "" : cell.textContent);
    const header = headings.flatMap((text, i) => (wide[i] ? [text, `${text} low`, `${text} high`] : [text]));
    const lines = rows.map((row) => [...row.cells].flatMap((cell, i) =>
      wide[i] ? [plain(cell, i), cell.dataset.low ?? "", cell.dataset.high ?? ""] : [plain(cell, i)]));
    return [header, ...lines].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  };

  const asMarkdown = (table) => {
    const text = (cell) => cell.textContent.replace(/[\\`*_[\]|#]/g, "\\$&").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    const headings = [...table.tHead.rows[0].cells];
    const rule = headings.map((cell) => (cell.classList.contains("number") ? "---:" : "---"));
    const lines = [headings.map(text), rule, ...visibleRows(table).map((row) => [...row.cells].map(text))];
    return lines.map((line) => `| ${line.join(" | ")} |`).join("\n") + "\n";
  };

  // Pages opened from a file may have no clipboard API; copying from a selected text field always works.
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    const heading = button?.closest("th");
    if (heading) sortBy(heading);
    if (!button?.dataset.copy) return;
    const table = button.closest(".table").querySelector("table");
    await copy(button.dataset.copy === "csv" ? asCsv(table) : asMarkdown(table));
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  });
  form?.addEventListener("change", choose);
  dark.addEventListener("change", drawAll);
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(fitAll, 150);
  });
  drawAll().then(choose).then(() => { document.documentElement.dataset.ready = "true"; });
})();
