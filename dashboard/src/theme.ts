// Colours that hold WCAG AA (4.5 : 1) in both schemes; Mantine's own greys do not.

import { createTheme, type CSSVariablesResolver } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "cyan",
  primaryShade: { light: 9, dark: 9 },
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, monospace",
  defaultRadius: "sm",
  cursorType: "pointer",
  components: {
    Button: { defaultProps: { loaderProps: { type: "dots" } } },
    Modal: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 300, events: { hover: true, focus: true, touch: true } } },
  },
});

export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "var(--mantine-color-gray-7)",
    "--mantine-color-placeholder": "var(--mantine-color-gray-7)",
    "--mantine-color-error": "var(--mantine-color-red-9)",
    "--mantine-color-anchor": "var(--mantine-color-cyan-9)",
    "--mantine-color-red-filled": "var(--mantine-color-red-9)",
    "--mantine-color-red-outline": "var(--mantine-color-red-9)",
    "--added": "#2b6a2f",
    "--tone-good": "var(--mantine-color-teal-8)",
    "--tone-bad": "var(--mantine-color-red-8)",
    "--tone-other": "var(--mantine-color-yellow-8)",
    "--line": "var(--mantine-color-gray-3)",
    "--raised": "var(--mantine-color-gray-0)",
    "--bar": "var(--mantine-color-cyan-7)",
  },
  dark: {
    "--mantine-color-dimmed": "var(--mantine-color-dark-1)",
    "--mantine-color-placeholder": "var(--mantine-color-dark-1)",
    "--mantine-color-error": "var(--mantine-color-red-4)",
    "--mantine-color-anchor": "var(--mantine-color-cyan-4)",
    "--mantine-color-red-filled": "var(--mantine-color-red-9)",
    "--mantine-color-red-outline": "var(--mantine-color-red-4)",
    "--added": "var(--mantine-color-green-4)",
    "--tone-good": "var(--mantine-color-teal-5)",
    "--tone-bad": "var(--mantine-color-red-5)",
    "--tone-other": "var(--mantine-color-yellow-5)",
    "--line": "var(--mantine-color-dark-4)",
    "--raised": "var(--mantine-color-dark-6)",
    "--bar": "var(--mantine-color-cyan-6)",
  },
});
