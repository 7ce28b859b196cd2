# Both programs in an image that holds nothing else: no shell, no package manager, no root.
# Compiled on the builder's own system for whichever the image is for: Go needs no emulator for that.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
ENV GOMODCACHE=/cache/mod GOCACHE=/cache/build
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache/mod go mod download
COPY . .
# There is no Git checkout in here that could tell; make image passes both.
ARG VERSION=
ARG COMMIT=
ARG TARGETOS
ARG TARGETARCH
RUN --mount=type=cache,target=/cache/mod --mount=type=cache,target=/cache/build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -o /out/ -ldflags "-s -w \
      -X github.com/pacer-notify/pacer/internal/version.version=${VERSION} \
      -X github.com/pacer-notify/pacer/internal/version.commit=${COMMIT}" \
      ./cmd/dispatcher ./cmd/enqueue

FROM scratch
# For webhooks, push services and Redis over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/dispatcher /out/enqueue /
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/dispatcher"]
CMD ["serve"]
