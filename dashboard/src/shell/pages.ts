// The menu: what is in it, and the key that follows `g`.

export const PAGES = [
  { path: "/", label: "Overview", key: "o" },
  { path: "/agents", label: "Agents", key: "a" },
  { path: "/containers", label: "Containers", key: "c" },
  { path: "/pods", label: "Pods", key: "p" },
  { path: "/nodes", label: "Nodes", key: "n" },
  { path: "/logs", label: "Logs", key: "l" },
  { path: "/tail", label: "Live tail", key: "t" },
  { path: "/alerts", label: "Alerts", key: "r" },
  { path: "/scaling", label: "Scaling", key: "d" },
  { path: "/explore", label: "Explore", key: "e" },
  { path: "/settings/profile", label: "Settings", key: "s" },
] as const;
