// The menu: what is in it, and the key that follows `g`.

export const PAGES = [
  { path: "/", label: "Overview", key: "o" },
  { path: "/agents", label: "Agents", key: "a" },
  { path: "/containers", label: "Containers", key: "c" },
  { path: "/pods", label: "Pods", key: "p" },
  { path: "/nodes", label: "Nodes", key: "n" },
  { path: "/explore", label: "Explore", key: "e" },
  { path: "/settings/profile", label: "Settings", key: "s" },
] as const;
