// What an organization and its people set.

import { Tabs } from "@mantine/core";
import { useNavigate, useParams } from "react-router";
import { useMe } from "../../api/queries";
import { Empty } from "../../ui/Loaded";
import { Page } from "../../ui/Page";
import { Keys } from "./Keys";
import { Limits } from "./Limits";
import { Profile } from "./Profile";
import { Users } from "./Users";

const TABS = [
  { key: "profile", label: "Profile", content: Profile, admin: false },
  { key: "keys", label: "API keys", content: Keys, admin: true },
  { key: "users", label: "Users", content: Users, admin: true },
  { key: "limits", label: "Usage and limits", content: Limits, admin: false },
] as const;

export default function Settings() {
  const { tab = "" } = useParams();
  const navigate = useNavigate();
  const me = useMe();
  const shown = TABS.find(({ key }) => key === tab);
  if (!shown) return <Empty title="There is no such page">The menu shows those there are.</Empty>;
  const Content = shown.content;
  return (
    <Page title="Settings">
      <Tabs value={tab} onChange={(next) => void navigate(`/settings/${next}`)} keepMounted={false}>
        <Tabs.List mb="md">
          {TABS.map(({ key, label }) => (
            <Tabs.Tab key={key} value={key}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          {shown.admin && me.data?.role !== "admin" ? (
            <Empty title="For admins">Please ask an admin of {me.data?.orgName}.</Empty>
          ) : (
            <Content />
          )}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
