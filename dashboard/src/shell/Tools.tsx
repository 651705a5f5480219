// The right end of the header: palette, time zone, colours, account.

import { Button, Group, Menu, Text, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "react-router";
import { answer, api, type Me } from "../api/client";
import { useZone } from "../ui/zone";
import { palette } from "./Palette";

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
        {scheme === "dark" ? "☀" : "☾"}
      </Button>
      <Menu position="bottom-end" width={230}>
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
