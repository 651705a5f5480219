// Scaling: the policies, and the log of what they decided.

import { Button, Tabs } from "@mantine/core";
import { Link, useNavigate } from "react-router";
import { useMe } from "../../api/queries";
import { Page } from "../../ui/Page";
import { Decisions } from "./Decisions";
import { Policies } from "./Policies";

const TABS = {
  policies: { path: "/scaling", label: "Policies", content: Policies },
  decisions: { path: "/scaling/decisions", label: "Decisions", content: Decisions },
};

export default function Scaling({ tab }: { tab: keyof typeof TABS }) {
  const navigate = useNavigate();
  const me = useMe();
  const Content = TABS[tab].content;
  return (
    <Page
      title="Scaling"
      tools={
        me.data?.role !== "viewer" && (
          <Button component={Link} to="/scaling/new">
            New policy
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
          <Content />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
