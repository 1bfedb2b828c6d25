// <rate-chart data-series="…">: a chart over time whose data is an attribute, so that a morph of the page redraws it.
// It replaces the server's own drawing of the same values, and takes markers from the table #chart-markers.
(() => {
  "use strict";
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const figure = (number) => (number > 0 && number < 10 ? tenths : whole).format(number);
  // In UTC, as every absolute time on the pages.
  const clock = (at, withSeconds) => new Date(at * 1000).toISOString().slice(11, withSeconds ? 19 : 16);
  const DAY_S = 86_400;
  const isOfDays = (first, last) => last - first > DAY_S;
  const dayAndClock = (at) => `${new Date(at * 1000).toISOString().slice(5, 10)} ${clock(at, false)}`;
  const moment = ({ scales: { x } }, at) => (isOfDays(x.min, x.max) ? dayAndClock(at) : clock(at, true));

  class RateChart extends HTMLElement {
    static observedAttributes = ["data-series"];

    connectedCallback() {
      this.dark = matchMedia("(prefers-color-scheme: dark)");
      this.onScheme = () => this.draw(true);
      this.dark.addEventListener("change", this.onScheme);
      this.sizes = new ResizeObserver(() => this.plot?.setSize(this.size()));
      this.sizes.observe(this);
      this.draw(true);
    }

    disconnectedCallback() {
      this.dark.removeEventListener("change", this.onScheme);
      this.sizes.disconnect();
      this.plot?.destroy();
      this.plot = null;
    }

    attributeChangedCallback() {
      if (this.isConnected && this.sizes) this.draw(false);
    }

    size() {
      return { width: Math.max(240, this.clientWidth), height: Number(this.dataset.height ?? 240) };
    }

    /** The attribute's data, with every time in it. */
    series() {
      const said = JSON.parse(this.dataset.series);
      if (said.first_s === undefined) return said;
      return { ...said, data: [said.data[0].map((_, index) => said.first_s + index * said.step_s), ...said.data] };
    }

    draw(anew) {
      const { lines, data, unit, top, from, to } = this.series();
      this.axis = { unit, top, from, to };
      if (!anew && this.plot) {
        this.plot.setData(data);
        this.sayLatest(this.plot);
        this.markLater();
        return;
      }
      this.plot?.destroy();
      this.replaceChildren();
      const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      const marked = lines.findIndex((line) => line.is_mark) + 1;
      this.plot = new uPlot(
        {
          ...this.size(),
          padding: [20, 32, 0, 0],
          cursor: { drag: { x: false, y: false }, points: { show: false } },
          legend: { markers: { width: 0, fill: (_, index) => colour(lines[index - 1].colour) } },
          scales: {
            x: { range: () => [this.axis.from, this.axis.to] },
            y: { range: () => [0, this.axis.top] },
            marks: { range: [0, 1] },
          },
          axes: [
            {
              ...axis,
              space: (_, __, first, last) => (isOfDays(first, last) ? 110 : 80),
              values: ({ scales: { x } }, ticks, _, __, step) =>
                ticks.map((tick) => (isOfDays(x.min, x.max) ? dayAndClock(tick) : clock(tick, step < 60))),
            },
            { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => this.amount(tick)) },
          ],
          series: [
            { label: "at", value: (plot, at) => (at == null ? "–" : `${moment(plot, at)} UTC`) },
            ...lines.map((line) => ({
              label: line.label,
              scale: line.is_mark ? "marks" : "y",
              stroke: colour(line.colour),
              width: 2,
              points: { show: false },
              value: (_, number) => (number == null ? "–" : `${figure(number)}${this.axis.unit}`),
              ...(line.is_mark ? { paths: () => null } : {}),
            })),
          ],
          hooks: {
            draw: [(plot) => this.mark(plot, marked), (plot) => this.sayUnits(plot)],
            setSize: [() => this.markLater()],
            setCursor: [(plot) => this.sayLatest(plot)],
          },
        },
        data,
        this,
      );
      this.sayLatest(this.plot);
      this.markLater();
    }

    /** A figure beside the axis, with a short unit; a long one is above the axis. */
    amount(tick) {
      return this.axis.unit.length <= 3 ? `${figure(tick)}${this.axis.unit}` : figure(tick);
    }

    /** The same frame brings the chart and the table of markers, the chart first. */
    markLater() {
      cancelAnimationFrame(this.marking);
      this.marking = requestAnimationFrame(() => this.plot && this.markEvents(this.plot));
    }

    /** A vertical line at each rebalance and fencing event, with its title and a link to it. Keys use the table. */
    markEvents(plot) {
      for (const old of plot.over.querySelectorAll("a")) old.remove();
      for (const row of document.querySelectorAll("#chart-markers [data-at]")) {
        const at = Number(row.dataset.at);
        if (at < this.axis.from || at > this.axis.to) continue;
        const link = document.createElement("a");
        link.href = row.querySelector("a").href;
        link.title = `${clock(at, true)} UTC, ${row.dataset.kind}: ${row.lastElementChild.textContent}`;
        link.className = `marker ${row.dataset.kind}`;
        link.tabIndex = -1;
        link.setAttribute("aria-hidden", "true");
        link.style.left = `${plot.valToPos(at, "x")}px`;
        plot.over.append(link);
      }
    }

    /** Without a pointer on the chart, its legend shows the newest figures. */
    sayLatest(plot) {
      const last = plot.data[0].length - 1;
      if (plot.cursor.idx == null && last >= 0) plot.setLegend({ idx: last }, false);
    }

    /** A dashed line at each second in which something was aborted. */
    mark(plot, series) {
      if (!series) return;
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = colour("--chart-abort");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      for (const [index, number] of (plot.data[series] ?? []).entries()) {
        if (!number) continue;
        const x = Math.round(plot.valToPos(plot.data[0][index], "x", true));
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    }

    /** The unit of the upright axis above it, and the zone of the times at its end. */
    sayUnits(plot) {
      const { ctx, bbox } = plot;
      const unit = this.axis.unit.trim();
      ctx.save();
      ctx.fillStyle = colour("--muted");
      ctx.textAlign = "left"; // uPlot leaves it as its last axis needed it
      ctx.textBaseline = "alphabetic";
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      if (this.axis.unit.length > 3) ctx.fillText(unit, 4 * devicePixelRatio, bbox.top - 8 * devicePixelRatio);
      ctx.textAlign = "right";
      ctx.fillText("UTC", bbox.left + bbox.width, bbox.top - 8 * devicePixelRatio);
      ctx.restore();
    }
  }
  customElements.define("rate-chart", RateChart);
})();
