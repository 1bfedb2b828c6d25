// <rate-chart data-series="…">: a chart over time whose data is an attribute, so that a morph of the page redraws it.
(() => {
  "use strict";
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A new run does not fill the whole width.
  const SHORTEST_S = 120;
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const figure = (number) => (number > 0 && number < 10 ? tenths : whole).format(number);
  // In UTC, as every absolute time on the pages.
  const clock = (at, withSeconds) => new Date(at * 1000).toISOString().slice(11, withSeconds ? 19 : 16);
  const DAY_S = 86_400;
  const isOfDays = (first, last) => last - first > DAY_S;
  const dayAndClock = (at) => `${new Date(at * 1000).toISOString().slice(5, 10)} ${clock(at, false)}`;
  const moment = (plot, at) => (isOfDays(plot.data[0][0], plot.data[0].at(-1)) ? dayAndClock(at) : clock(at, true));

  /** The top of the scale: a round figure, so that it seldom changes. A short and very high peak exceeds it. */
  function roof(lines) {
    const sorted = lines.flat().filter((number) => number != null).sort((a, b) => a - b);
    const most = sorted.at(-1) ?? 0;
    const usual = sorted[Math.floor(sorted.length * 0.95)] ?? 0;
    const wanted = Math.max((usual > 0 && most > 5 * usual ? 2 * usual : most) * 1.05, 1);
    const size = 10 ** Math.floor(Math.log10(wanted));
    return size * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * size >= wanted);
  }

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

    /** The attribute's data, with every second in it. */
    series() {
      const said = JSON.parse(this.dataset.series);
      if (said.first_s === undefined) return said;
      return { ...said, data: [said.data[0].map((_, index) => said.first_s + index), ...said.data] };
    }

    draw(anew) {
      const { lines, data, unit = "/s" } = this.series();
      this.unit = unit;
      if (!anew && this.plot) {
        this.plot.setData(data);
        this.sayLatest(this.plot);
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
            x: { range: (_, first, last) => [Math.min(first, last - SHORTEST_S), last] },
            y: { range: (plot) => [0, roof(plot.data.slice(1).filter((_, index) => index + 1 !== marked))] },
            marks: { range: [0, 1] },
          },
          axes: [
            {
              ...axis,
              space: (_, __, first, last) => (isOfDays(first, last) ? 110 : 80),
              values: ({ scales: { x } }, ticks, _, __, step) =>
                ticks.map((tick) => (isOfDays(x.min, x.max) ? dayAndClock(tick) : clock(tick, step < 60))),
            },
            { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => figure(tick)) },
          ],
          series: [
            { label: "at", value: (plot, at) => (at == null ? "–" : `${moment(plot, at)} UTC`) },
            ...lines.map((line) => ({
              label: line.label,
              scale: line.is_mark ? "marks" : "y",
              stroke: colour(line.colour),
              width: 2,
              points: { show: false },
              value: (_, number) => (number == null ? "–" : figure(number)),
              ...(line.is_mark ? { paths: () => null } : {}),
            })),
          ],
          hooks: {
            draw: [(plot) => this.mark(plot, marked), (plot) => this.sayWhatIsAbove(plot, marked)],
            setCursor: [(plot) => this.sayLatest(plot)],
          },
        },
        data,
        this,
      );
      this.sayLatest(this.plot);
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

    /** Mark values above the top of the scale: a catch-up must neither flatten the rest nor be hidden. */
    sayWhatIsAbove(plot, marked) {
      const top = plot.scales.y.max;
      const peaks = plot.data[0].map((_, index) =>
        Math.max(...plot.data.slice(1).map((line, series) => (series + 1 === marked ? 0 : (line[index] ?? 0)))),
      );
      const highest = peaks.indexOf(Math.max(...peaks));
      if (highest < 0 || peaks[highest] <= top) return;
      const { ctx, bbox } = plot;
      const text = `▲ up to ${figure(peaks[highest])}${this.unit} at ${moment(plot, plot.data[0][highest])} UTC`;
      ctx.save();
      ctx.fillStyle = colour("--muted");
      ctx.textAlign = "left"; // uPlot leaves it as its last axis needed it
      ctx.textBaseline = "alphabetic";
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      const at = plot.valToPos(plot.data[0][highest], "x", true);
      const x = Math.max(bbox.left, Math.min(at, bbox.left + bbox.width - ctx.measureText(text).width));
      ctx.fillText(text, x, bbox.top - 6 * devicePixelRatio);
      ctx.restore();
    }
  }
  customElements.define("rate-chart", RateChart);
})();
