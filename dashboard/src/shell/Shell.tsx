// The frame around the pages of somebody who is logged in: menu, header, banner, keys.

import { Alert, AppShell, Burger, Group, NavLink, ScrollArea, Text, VisuallyHidden } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Suspense, useEffect, useSyncExternalStore, type ReactNode } from "react";
import { Link, Navigate, Outlet, useLocation } from "react-router";
import { ApiError, connection } from "../api/client";
import { useMe } from "../api/queries";
import { Loaded } from "../ui/Loaded";
import { Keys } from "./Keys";
import { PAGES } from "./pages";
import { Palette } from "./Palette";
import { Tools } from "./Tools";

const HEADER_HEIGHT = 54;

export function Shell({ waiting }: { waiting: ReactNode }) {
  const me = useMe();
  const { pathname, search } = useLocation();
  const [menu, { toggle, close }] = useDisclosure();
  useEffect(close, [pathname, close]);

  if (me.error instanceof ApiError && me.error.status === 401)
    return <Navigate to={`/login?next=${encodeURIComponent(pathname + search)}`} replace />;
  if (me.data?.mustChangePassword) return <Navigate to="/password" replace />;
  if (!me.data) return me.error ? <Loaded query={me}>{() => null}</Loaded> : waiting;
  return (
    <AppShell
      header={{ height: HEADER_HEIGHT }}
      navbar={{ width: 190, breakpoint: "sm", collapsed: { mobile: !menu } }}
      padding="md"
    >
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="xs" wrap="nowrap">
            <Burger
              opened={menu}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={menu ? "Close the menu" : "Open the menu"}
              aria-expanded={menu}
            />
            <img src="/favicon.svg" alt="" width={26} height={26} />
            <Text fw={700} visibleFrom="xs">
              monitor
            </Text>
          </Group>
          <Tools me={me.data} />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        <AppShell.Section grow component={ScrollArea}>
          {PAGES.map(({ path, label }) => (
            <NavLink
              key={path}
              component={Link}
              to={path}
              label={label}
              active={isActive(pathname, path)}
              aria-current={isActive(pathname, path) ? "page" : undefined}
              variant="filled"
            />
          ))}
        </AppShell.Section>
        <AppShell.Section>
          <NavLink component="a" href="/docs" label="API" />
          <Text size="xs" c="dimmed" px="xs" className="truncate" title={me.data.orgName}>
            {me.data.orgName}
          </Text>
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main>
        <ConnectionBanner />
        <Suspense fallback={waiting}>
          <Outlet />
        </Suspense>
      </AppShell.Main>
      <Palette />
      <Keys />
    </AppShell>
  );
}

function isActive(pathname: string, path: string): boolean {
  const first = path.split("/")[1];
  return pathname.split("/")[1] === first;
}

function ConnectionBanner() {
  const lost = useSyncExternalStore(connection.watch, connection.isLost);
  return (
    <div aria-live="assertive">
      {lost ? (
        <Alert color="red" variant="outline" mb="md" title="Connection lost">
          The service does not answer. What you see is the last known state; it is asked again by itself.
        </Alert>
      ) : (
        <VisuallyHidden>Connected</VisuallyHidden>
      )}
    </div>
  );
}
