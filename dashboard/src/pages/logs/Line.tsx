// One line by its own address, and those around it.

import { Anchor } from "@mantine/core";
import { Link, useParams } from "react-router";
import { Page } from "../../ui/Page";
import { Around } from "./Around";
import "./logs.css";

export default function Line() {
  const { id = "" } = useParams();
  return (
    <Page
      title="A log line"
      before={
        <Anchor component={Link} to="/logs" size="sm">
          ← Log search
        </Anchor>
      }
    >
      <Around key={id} id={id} opened />
    </Page>
  );
}
