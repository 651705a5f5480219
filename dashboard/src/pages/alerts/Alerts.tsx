// What fired, by which rules, and who is told: three tabs, each with a path of its own.

import { Button, Tabs } from "@mantine/core";
import { Link, useNavigate } from "react-router";
import { useMe } from "../../api/queries";
import { Empty } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { Channels } from "./Channels";
import { Fired } from "./Fired";
import { Rules } from "./Rules";

const TABS = {
  fired: { path: "/alerts", label: "Fired", content: Fired, admin: false },
  rules: { path: "/alerts/rules", label: "Rules", content: Rules, admin: false },
  channels: { path: "/alerts/channels", label: "Channels", content: Channels, admin: true },
};

export default function Alerts({ tab }: { tab: keyof typeof TABS }) {
  const navigate = useNavigate();
  const me = useMe();
  const { content: Content, admin } = TABS[tab];
  return (
    <Page
      title="Alerts"
      tools={
        me.data?.role !== "viewer" && (
          <Button component={Link} to="/alerts/rules/new">
            New rule
          </Button>
        )
      }
    >
      <Tabs
        value={tab}
        onChange={(next) => next && void navigate(TABS[next as keyof typeof TABS].path)}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          {Object.entries(TABS).map(([key, { label }]) => (
            <Tabs.Tab key={key} value={key}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          {admin && me.data?.role !== "admin" ? (
            <Empty title="For admins">Please ask an admin of {me.data?.orgName}.</Empty>
          ) : (
            <Content />
          )}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
