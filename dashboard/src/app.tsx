// Which page a path shows.  Each page is loaded when it is first opened.

import { Center, Loader } from "@mantine/core";
import { lazy, Suspense } from "react";
import { Navigate, Route, Routes } from "react-router";
import { Shell } from "./shell/Shell";
import { Empty } from "./ui/Loaded";

const Login = lazy(() => import("./pages/login/Login"));
const Password = lazy(() => import("./pages/password/Password"));
const Overview = lazy(() => import("./pages/overview/Overview"));
const Agents = lazy(() => import("./pages/agents/Agents"));
const Containers = lazy(() => import("./pages/containers/Containers"));
const Container = lazy(() => import("./pages/containers/Container"));
const Pods = lazy(() => import("./pages/pods/Pods"));
const Nodes = lazy(() => import("./pages/nodes/Nodes"));
const Pod = lazy(() => import("./pages/pods/Pod"));
const Logs = lazy(() => import("./pages/logs/Logs"));
const Line = lazy(() => import("./pages/logs/Line"));
const Tail = lazy(() => import("./pages/tail/Tail"));
const Explore = lazy(() => import("./pages/explore/Explore"));
const Alerts = lazy(() => import("./pages/alerts/Alerts"));
const Alert = lazy(() => import("./pages/alerts/Alert"));
const RuleForm = lazy(() => import("./pages/alerts/RuleForm"));
const Scaling = lazy(() => import("./pages/scaling/Scaling"));
const Policy = lazy(() => import("./pages/scaling/Policy"));
const PolicyForm = lazy(() => import("./pages/scaling/PolicyForm"));
const Settings = lazy(() => import("./pages/settings/Settings"));

export function App() {
  return (
    <Suspense fallback={<Waiting />}>
      <Routes>
        <Route path="/login" element={<Login />} />
        <Route path="/password" element={<Password />} />
        <Route element={<Shell waiting={<Waiting />} />}>
          <Route index element={<Overview />} />
          <Route path="/agents" element={<Agents />} />
          <Route path="/containers" element={<Containers />} />
          <Route path="/containers/:agentId/:id" element={<Container />} />
          <Route path="/pods" element={<Pods />} />
          <Route path="/nodes" element={<Nodes />} />
          <Route path="/pods/:agentId/:namespace/:name" element={<Pod />} />
          <Route path="/logs" element={<Logs />} />
          <Route path="/logs/line/:id" element={<Line />} />
          <Route path="/tail" element={<Tail />} />
          <Route path="/alerts" element={<Alerts tab="fired" />} />
          <Route path="/alerts/rules" element={<Alerts tab="rules" />} />
          <Route path="/alerts/rules/new" element={<RuleForm />} />
          <Route path="/alerts/rules/:id" element={<RuleForm />} />
          <Route path="/alerts/channels" element={<Alerts tab="channels" />} />
          <Route path="/alerts/:id" element={<Alert />} />
          <Route path="/scaling" element={<Scaling tab="policies" />} />
          <Route path="/scaling/decisions" element={<Scaling tab="decisions" />} />
          <Route path="/scaling/new" element={<PolicyForm />} />
          <Route path="/scaling/:id" element={<Policy />} />
          <Route path="/scaling/:id/edit" element={<PolicyForm />} />
          <Route path="/explore" element={<Explore />} />
          <Route path="/settings" element={<Navigate to="/settings/profile" replace />} />
          <Route path="/settings/:tab" element={<Settings />} />
          <Route path="*" element={<Empty title="There is no such page">The menu shows those there are.</Empty>} />
        </Route>
      </Routes>
    </Suspense>
  );
}

function Waiting() {
  return (
    <Center h="60vh" role="status" aria-label="Loading">
      <Loader type="dots" />
    </Center>
  );
}
