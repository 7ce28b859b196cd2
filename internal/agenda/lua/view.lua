-- view tells where a notification is in its agenda. It writes nothing.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4…] the plan, see read_plan
--
-- Result   {now, 1 when it waits in its backlog, 1 when it is deferred, expected delivery in µs (0: unknown), number of
--          the rule that its backlog waits for (0: none), the line of history of its deferral ("": none), how many of
--          the user's notifications go before it}
local agenda = open_agenda(ARGV[2])
local backlog = backlog_of(agenda, ARGV[1])
local rank = redis.call('ZRANK', backlog.key, ARGV[3])
local due = not rank and tonumber(redis.call('ZSCORE', agenda.later, ARGV[3]) or 0)
if due == 0 then return { now, 0, 0, 0, 0, '', 0 } end
local plan = plan_of(4, backlog.category, agenda.user)

-- only_caps returns a plan with the rules of a user's cap only.
local function only_caps(whole)
  local caps = copy_plan(whole, whole.state, whole.cap)
  caps.rules = {}
  for _, rule in ipairs(whole.rules) do
    if rule.kind == KIND_CAP then caps.rules[#caps.rules + 1] = rule end
  end
  return caps
end

-- ahead_elsewhere counts what goes before this notification in other categories, by priority and arrival. It leaves out
-- what another rule than the cap blocks: that takes no slot from this notification.
local function ahead_elsewhere()
  local before = '(' .. digits(tonumber(redis.call('ZSCORE', backlog.key, ARGV[3])))
  local n = 0
  for _, other in pairs(agenda.backlogs) do
    if other ~= backlog and not other.paused and (other.next == 0 or other.capped) then
      n = n + redis.call('ZCOUNT', other.key, '-inf', before)
    end
  end
  return n
end

-- How many are planned one by one. Those further back go at the pace of the slowest rule.
local PLANNED = 1000

-- expected returns when a notification goes that has `before` others before it, and the rule that the first of these
-- waits for.
local function expected(by, before)
  local planned = {}
  local ahead = { count = 0, newest = function(n) return planned[#planned - n + 1] end }
  local rule
  while true do
    local at, why = decide(by, now, ahead)
    if #planned > 0 and at < planned[#planned] then at = planned[#planned] end
    if #planned == 0 then rule = why end
    if #planned == before then return at, rule end
    if #planned == PLANNED then break end
    planned[#planned + 1] = at
    ahead.count = #planned
  end
  local at = planned[PLANNED]
  local slowest = at
  for _, r in ipairs(by.rules) do
    slowest = math.max(slowest, at + math.floor((before - PLANNED) * r.per / r.max))
  end
  return slowest, rule
end

-- expected_later returns when a notification goes that is due later, and joins its backlog then. Those before it in
-- line, `before`, go as long as it is not due, and the others of the backlog too.
local function expected_later(before)
  local planned, size = {}, size_of(backlog)
  local ahead = { count = 0, newest = function(n) return planned[#planned - n + 1] end }
  while true do
    local at = math.max(decide(plan, now, ahead), planned[#planned] or 0)
    if at >= due and #planned >= math.min(before, size) or #planned == size or #planned == PLANNED then
      return math.max(at, due)
    end
    planned[#planned + 1] = at
    ahead.count = #planned
  end
end

local f = redis.call('HMGET', partition .. 'n:' .. ARGV[3], 'j', 'd', 'v', 'i', 'p', 'l')
if due then
  if f[4] then return { now, 0, 0, due, 0, '', 0 } end
  local at_place = place(tonumber(f[5]), tonumber(f[6] or f[3]))
  return { now, 0, 0, expected_later(redis.call('ZCOUNT', backlog.key, '-inf', '(' .. at_place)), 0, '', 0 }
end
local deferred = backlog.next > 0 and was_deferred(backlog, f[1])
local at, rule, before = now, 0, 0
if not f[4] then
  before = rank
  at, rule = expected(plan, rank)
  local caps = only_caps(plan)
  local elsewhere = #caps.rules > 0 and ahead_elsewhere() or 0
  if elsewhere > 0 then
    before = rank + elsewhere
    at = math.max(at, (expected(caps, before)))
  end
end
local line = ''
if was_deferred(backlog, f[1]) and not f[2] then line = deferral_of(backlog, tonumber(f[3])) end
return { now, 1, deferred and 1 or 0, at, rule, line, before }
