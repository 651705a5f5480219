// The right end of the header: palette, time zone, colours, account.

import { Button, Group, Menu, Text, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "react-router";
import { answer, api, type Me } from "../api/client";
import { useZone } from "../ui/zone";
import { palette } from "./Palette";

const MOON = "M6.5 2a6 6 0 1 0 7.5 7.5A5.2 5.2 0 0 1 6.5 2z";
const SUN =
  "M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M8 .8v1.6M8 13.6v1.6M.8 8h1.6M13.6 8h1.6" +
  "M2.9 2.9l1.1 1.1M12 12l1.1 1.1M2.9 13.1L4 12M12 4l1.1-1.1";

export function Tools({ me }: { me: Me }) {
  const { zone, toggle } = useZone();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const client = useQueryClient();
  const navigate = useNavigate();
  const logOut = async () => {
    await answer(api.POST("/auth/logout"));
    client.clear();
    await navigate("/login");
  };
  const other = scheme === "dark" ? "light" : "dark";
  return (
    <Group gap="xs" wrap="nowrap">
      <Button size="xs" variant="default" onClick={palette.open} visibleFrom="sm">
        Go to … <kbd style={{ marginLeft: 8 }}>Ctrl K</kbd>
      </Button>
      <Button size="xs" variant="default" onClick={toggle} aria-label={`Times: ${zone}. Change`}>
        {zone === "UTC" ? "UTC" : "Local"}
      </Button>
      <Button size="xs" variant="default" onClick={() => setColorScheme(other)} aria-label={`Use ${other} colours`}>
        <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden>
          <path d={scheme === "dark" ? SUN : MOON} fill="currentColor" stroke="currentColor" strokeWidth="1.4" />
        </svg>
      </Button>
      <Menu position="bottom-end" width={230} withInitialFocusPlaceholder={false}>
        <Menu.Target>
          <Button size="xs" variant="default">
            Account
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label c="dimmed">
            <Text size="sm" className="truncate">
              {me.email ?? me.keyName}
            </Text>
            {me.role} · {me.orgName}
          </Menu.Label>
          <Menu.Item component={Link} to="/settings/profile">
            Profile
          </Menu.Item>
          <Menu.Item onClick={() => void logOut()}>Log out</Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}
