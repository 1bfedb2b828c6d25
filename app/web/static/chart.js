// <rate-chart data-series="…">: a chart over time whose data is an attribute, so that a morph of the page redraws it.
(() => {
  "use strict";
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

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
      return { width: Math.max(240, this.clientWidth), height: 240 };
    }

    draw(anew) {
      const { lines, data } = JSON.parse(this.dataset.series);
      if (!anew && this.plot) {
        this.plot.setData(data);
        return;
      }
      this.plot?.destroy();
      this.replaceChildren();
      const clock = (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, tick % 60 ? 8 : 5));
      const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      this.plot = new uPlot(
        {
          ...this.size(),
          padding: [8, 32, 0, 0],
          cursor: { drag: { x: false, y: false } },
          scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
          axes: [{ ...axis, space: 80, values: clock }, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => whole.format(tick)) }],
          series: [
            { label: "time", value: "{HH}:{mm}:{ss}" },
            ...lines.map((line) => ({
              label: line.label,
              stroke: colour(line.colour),
              width: 2,
              points: { show: false },
              dash: line.dash,
              value: (_, number) => (number == null ? "–" : `${whole.format(number)}`),
            })),
          ],
        },
        data,
        this,
      );
    }
  }
  customElements.define("rate-chart", RateChart);
})();
