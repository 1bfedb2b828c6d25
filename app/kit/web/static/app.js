// Functions beyond HTML: copying ids, updating times, sorting live tables, keyboard shortcuts, and the stream's state.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  // Copying. One listener for buttons that come and go.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without permission (or without TLS): select it for Ctrl+C.
      const range = document.createRange();
      range.selectNodeContents(button.previousElementSibling ?? button);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      selected = { text, shown: String(getSelection()) };
      return say("Selected: press Ctrl+C to copy");
    }
    say(`Copied ${text}`);
  });

  // Ctrl+C then copies the button's text: the visible text may have control characters, or be shortened.
  let selected = null;
  document.addEventListener("copy", (event) => {
    if (selected === null || String(getSelection()) !== selected.shown) return;
    event.clipboardData.setData("text/plain", selected.text);
    event.preventDefault();
  });

  function say(sentence) {
    const status = document.getElementById("status");
    if (status) status.textContent = sentence;
  }

  // Times are relative, or in UTC on request. The server writes the age once; this script updates it.
  const MOMENTS = "fenceline-moments";
  let asMoments = sessionStorage.getItem(MOMENTS) !== null;
  function relative(seconds) {
    const past = seconds >= 0;
    const s = Math.abs(seconds);
    const text =
      s < 1 ? "now" : s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min` :
      s < 86400 ? `${Math.floor(s / 3600)} h` : s < 172800 ? "1 day" : `${Math.floor(s / 86400)} days`;
    return text === "now" ? text : past ? `${text} ago` : `in ${text}`;
  }

  function tick() {
    const now = Date.now();
    const today = new Date(now).toISOString().slice(0, 10);
    for (const time of document.querySelectorAll("time[data-relative]")) {
      const text = asMoments
        ? time.title.startsWith(today) ? time.title.slice(11) : time.title
        : relative((now - Date.parse(time.dateTime)) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }
  setInterval(tick, 1000);

  function toggleMoments() {
    asMoments = !asMoments;
    if (asMoments) sessionStorage.setItem(MOMENTS, "");
    else sessionStorage.removeItem(MOMENTS);
    tick();
    say(asMoments ? "Times are in UTC" : "Times are relative");
  }
  // Touch screens do not show titles.
  document.addEventListener("click", (event) => {
    if (event.target.closest("time[data-relative], [data-moments]")) toggleMoments();
  });

  // A change glows for a second: only important ones (data-glow), not every counter.
  const glowed = new Map();
  function rememberGlow() {
    for (const element of document.querySelectorAll("[data-glow]")) {
      const key = element.dataset.glow;
      const text = element.textContent.trim();
      const before = glowed.get(key);
      glowed.set(key, text);
      if (before === undefined || before === text) continue;
      element.classList.remove("glow");
      void element.offsetWidth; // restarts the animation
      element.classList.add("glow");
    }
  }

  // Sorting by a column, kept while the table's rows are morphed from the stream.
  const sorts = new Map();
  function value(row, column) {
    const cell = row.cells[column];
    const raw = cell?.dataset.sort ?? cell?.textContent.trim() ?? "";
    const number = Number(raw.replaceAll(",", ""));
    return raw !== "" && Number.isFinite(number) ? number : raw;
  }

  function applySort(table) {
    const sort = sorts.get(table.id);
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      if (sort && sort.column === column) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else if (head.querySelector("button.sort")) head.removeAttribute("aria-sort");
    }
    if (!sort) return;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const sorted = rows.toSorted((a, b) => {
      const [x, y] = [value(a, sort.column), value(b, sort.column)];
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return sort.down ? -order : order;
    });
    if (sorted.some((row, index) => row !== rows[index])) body.append(...sorted);
  }

  function makeSortable() {
    for (const table of document.querySelectorAll("table.sortable[id]")) {
      for (const head of table.tHead.rows[0].cells) {
        if (head.querySelector("a, button, .visually-hidden") || !head.textContent.trim()) continue;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.textContent = head.textContent;
        head.replaceChildren(button);
      }
      applySort(table);
    }
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("button.sort")?.closest("th");
    if (!head) return;
    const table = head.closest("table");
    const before = sorts.get(table.id);
    const column = head.cellIndex;
    const down = before?.column === column ? !before.down : false;
    sorts.set(table.id, { column, down });
    applySort(table);
  });

  // Related rows light up together, under the mouse and under the focus.
  let lights;
  function light() {
    for (const row of document.querySelectorAll("[data-lights]")) {
      row.classList.toggle("lit", lights !== undefined && row.dataset.lights === lights);
    }
  }
  for (const name of ["mouseover", "focusin"]) {
    document.addEventListener(name, (event) => {
      lights = event.target.closest?.("[data-lights]")?.dataset.lights;
      light();
    });
  }

  // A log stays at its end unless the user has scrolled up.
  const scrolledUp = new WeakSet();
  document.addEventListener(
    "scroll",
    (event) => {
      const log = event.target;
      if (!(log instanceof Element) || !log.matches(".log")) return;
      if (log.scrollHeight - log.scrollTop - log.clientHeight > 40) scrolledUp.add(log);
      else scrolledUp.delete(log);
    },
    true,
  );
  function followLogs() {
    for (const log of document.querySelectorAll(".log")) {
      if (!scrolledUp.has(log)) log.scrollTop = log.scrollHeight;
    }
  }

  function refresh() {
    makeSortable();
    rememberGlow();
    followLogs();
    light();
    tick();
  }
  // A form that the server draws again while it is filled in keeps what was typed after it was sent.
  const isTicked = (field) => ["checkbox", "radio"].includes(field.type);
  const typedInto = (form) => new Map([...form.elements]
    .filter((field) => field.name && !["hidden", "file", "submit", "button", "fieldset"].includes(field.type))
    .map((field) => [isTicked(field) ? `${field.name}=${field.value}` : field.name, field]));
  const entryOf = (field) => (isTicked(field) ? field.checked : field.value);
  document.addEventListener("htmx:before:request", ({ target, detail: { ctx } }) => {
    // A button inside, such as "Add a step", draws its form again too.
    const form = target instanceof HTMLFormElement ? target : target.form;
    if (form?.id && ctx.target === form) {
      ctx.redrawn = form.id;
      ctx.drawing = drawings;
      ctx.sent = new Map([...typedInto(form)].map(([key, field]) => [key, entryOf(field)]));
    }
  });
  // Rows that a button has added or removed since a check was sent are not in its answer.
  let drawings = 0;
  document.addEventListener("htmx:before:swap", (event) => {
    const { ctx } = event.detail;
    if (!ctx.sent) return;
    if (ctx.sourceElement instanceof HTMLFormElement) {
      if (ctx.drawing !== drawings) return event.preventDefault();
    } else {
      drawings += 1;
    }
    ctx.typedSince = [...typedInto(document.getElementById(ctx.redrawn))]
      .map(([key, field]) => [key, entryOf(field)])
      .filter(([key, entry]) => ctx.sent.has(key) && ctx.sent.get(key) !== entry)
      // A removal gives the rows behind it other numbers.
      .filter(([key]) => !(ctx.sourceElement.value?.startsWith("remove-") && /\.\d+\./.test(key)));
  });
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    const form = ctx?.typedSince?.length ? document.getElementById(ctx.redrawn) : null;
    if (!form) return;
    const fields = typedInto(form);
    for (const [key, entry] of ctx.typedSince) {
      const field = fields.get(key);
      if (field) field[isTicked(field) ? "checked" : "value"] = entry;
    }
  });
  // Messages that appear above a field do not push it out of the window while it is typed into.
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    if (ctx?.redrawn) document.activeElement.scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("htmx:after:swap", refresh);
  document.addEventListener("DOMContentLoaded", refresh);

  // The event stream: show when it is down. The library does not retry a failed first connection, so this script does.
  const live = () => document.querySelector("[data-live]");
  let retry = null;
  function streamIs(state) {
    root.dataset.stream = state;
  }
  // A stream that never opened (no script, no answer from the server) is not live either.
  document.addEventListener("DOMContentLoaded", () => {
    if (live()) setTimeout(() => root.dataset.stream ?? streamIs("down"), 3000);
  });
  document.addEventListener("htmx:sse:after:connection", () => streamIs("up"));
  document.addEventListener("htmx:sse:error", () => streamIs("down"));
  for (const name of ["htmx:error", "htmx:response:error"]) {
    document.addEventListener(name, (event) => {
      const element = live();
      if (!element || event.target !== element || retry !== null) return;
      streamIs("down");
      retry = setTimeout(() => {
        retry = null;
        htmx.process(element, true);
      }, 2000);
    });
  }
  document.addEventListener("htmx:sse:after:message", (event) => {
    streamIs(event.detail.message.event === "away" ? "away" : "up");
  });
  document.addEventListener("session-ended", () => location.reload());
  // A submitted form gets its own page: a reload would cancel it, and could request a removed resource.
  let isLeaving = false;
  document.addEventListener("submit", (event) => (isLeaving ||= !event.defaultPrevented));
  addEventListener("pageshow", () => (isLeaving = false));
  document.addEventListener("gone", () => isLeaving || location.reload());

  // The message after a form is shown for a while only, and not again after a reload.
  const said = document.querySelector("[data-said]");
  if (said) {
    const address = new URL(location.href);
    address.searchParams.delete("said");
    history.replaceState(history.state, "", address);
    setTimeout(() => said.remove(), 10_000);
  }

  // On a phone the navigation is one row: the present page's link is scrolled into view.
  const placesRow = document.querySelector(".top nav.places ul");
  const here = placesRow?.querySelector("[aria-current]");
  if (here) placesRow.scrollLeft = here.offsetLeft - (placesRow.clientWidth - here.offsetWidth) / 2;

  // Forms with a slow answer show that they wait. What they wait for is kept here: a morph of the form removes attributes.
  const waiting = new WeakSet();
  document.addEventListener("submit", (event) => {
    const form = event.target, { meanwhile } = form.dataset, since = Date.now();
    if (!meanwhile || waiting.has(form)) return;
    waiting.add(form);
    const note = document.createElement("p");
    note.className = "notice";
    note.setAttribute("role", "status");
    const tell = () => {
      note.textContent = `${meanwhile}, ${Math.round((Date.now() - since) / 1000)} s …`;
      (form.querySelector(".form-foot") ?? form).append(note);  // A frame of the page's stream takes away what the server did not send.
    };
    tell();
    const ticking = setInterval(tell, 1000);
    // Back on a cached page: nothing is pending.
    addEventListener("pageshow", () => {
      clearInterval(ticking);
      note.remove();
      waiting.delete(form);
    }, { once: true });
  });

  // Search: Ctrl-K opens it from anywhere; Enter opens the first result, arrows go through them.
  const search = document.getElementById("finder");
  const openSearch = () => {
    search.showModal();
    search.querySelector("input").select();
  };
  if (search) {
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (search.open) search.close();
      else openSearch();
    });
    document.querySelector("[data-search]").addEventListener("click", (event) => {
      event.preventDefault();
      openSearch();
    });
    search.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const stops = [search.querySelector("input"), ...search.querySelectorAll(".results a")];
      stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
    });
    search.querySelector("form").addEventListener("submit", (event) => {
      const first = search.querySelector(".results a");
      const shown = search.querySelector("#results")?.dataset.text;
      if (!first || shown !== search.querySelector("input").value) return;  // The page has the answer.
      event.preventDefault();
      location.href = first.href;
    });
  }

  // Keyboard shortcuts, except in text fields.
  const typing = (element) => element.closest("input, select, textarea, [contenteditable]") !== null;
  let leader = false;
  const home = document.querySelector("a.brand");
  const places = { o: "/", p: "/pipelines", m: "/mappings", t: "/transactions", r: "/groups", f: "/fencing", s: "/stuck", c: "/clusters", l: "/commands" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const help = document.getElementById("keys");
    if (event.key === "?") {
      event.preventDefault();
      if (help.open) help.close();
      else help.showModal();
    } else if (leader && places[event.key]) {
      location.href = home.pathname.replace(/\/$/, "") + places[event.key];
    } else if (event.key === "u") {
      toggleMoments();
    } else if (event.key === "n") {
      document.querySelector("[data-key='n']")?.click();
    } else if (event.key === "e") {
      document.querySelector("[data-key='e']")?.click();
    } else if (event.key === "/") {
      const find = document.querySelector("[data-key='/']");
      if (find) {
        event.preventDefault();
        const folded = find.closest("details");
        if (folded) folded.open = true;
        find.focus();
      }
    }
    leader = event.key === "g";
    if (leader) setTimeout(() => (leader = false), 1500);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.action[open]")) {
      // Back to what opened it: a focus in a closed form would be lost.
      if (open.contains(document.activeElement)) open.querySelector("summary").focus();
      open.open = false;
    }
  });
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.action[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
})();
