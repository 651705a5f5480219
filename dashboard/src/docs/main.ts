// The API's pages, from the service's own description.

import "swagger-ui-dist/swagger-ui.css";
import "./docs.css";
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";

SwaggerUI({
  url: "/openapi.json",
  dom_id: "#root",
  deepLinking: true,
  docExpansion: "none",
  validatorUrl: null, // it would send the description to somebody else
});
