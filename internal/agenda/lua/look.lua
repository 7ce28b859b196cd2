-- look reports what waits for a user, what decides when it goes, and what is known of some notifications. It writes
-- nothing. What it reads is bounded, however many wait: readon reads on.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  user
-- ARGV[2]  1: the channels and groups matter
-- ARGV[3]  how many to read of each backlog, and of what is later, at most
-- ARGV[4]  how many categories; of each its name and the plan, see read_plan
-- then     the notifications; of each: id, category, and its collapse key, if it is not known ("": none)
--
-- Result   {now,
--          categories; of each, in order: {how many wait in its backlog, the first of it, see put_backlog, what was
--          admitted, see put_past, and the fields next, rule and most of the backlog, see open_agenda, 1 when a
--          closed interval has blocked it},
--          what is later, the first of it, see put_later, how many are later in all,
--          notifications; of each, in order: {its state (a letter, see agenda.lua; "" when it is not known), 1 when it
--          waits in its backlog, how many stand before it, 1 when it is deferred, the line of history of its deferral
--          ("": none), when it was admitted last (0: never), why it waits or ended, itself where it waits, or the one
--          that has its collapse key, see put_backlog and put_later; the arrival of that one, and of the newest with
--          the key (0: none)},
--          other categories in which something waits; of each the name and how many,
--          the moment of the wake-up (0: none)}
local ARGV = ARGV
local agenda = open_agenda(ARGV[1])
local channels, most = ARGV[2] == '1', ARGV[3]

local categories, given, i = {}, {}, 5
for n = 1, tonumber(ARGV[4]) do
  local plan, after = read_plan(i + 1)
  local backlog, past, first = backlog_of(agenda, ARGV[i]), {}, {}
  set_plan_keys(plan, backlog.category, agenda.user)
  put_past(past, plan)
  if size_of(backlog) > 0 then put_backlog(first, backlog.key, '-inf', '0', most, channels) end
  categories[n] = { size_of(backlog), first, past, backlog.next, backlog.rule, backlog.most,
    backlog.bundled and 1 or 0 }
  given[backlog.category] = true
  i = after
end

local others = {}
for category, backlog in pairs(agenda.backlogs) do
  if not given[category] and size_of(backlog) > 0 then
    others[#others + 1] = category
    others[#others + 1] = size_of(backlog)
  end
end

-- put_waiting appends a notification where it waits, and returns its place in its backlog.
local function put_waiting(list, backlog, id)
  local at_place = size_of(backlog) > 0 and redis.call('ZSCORE', backlog.key, id)
  if at_place then
    put_standing(list, id, tonumber(at_place), channels)
    return tonumber(at_place)
  end
  local due = redis.call('ZSCORE', agenda.later, id)
  if due then put_due(list, id, tonumber(due), channels) end
end

-- look_at returns what is known of a notification.
local function look_at(id, backlog, collapse)
  local state, joined, deferrals, admitted, reason, accepted = unpack(redis.call('HMGET', partition .. 'n:' .. id,
    F.state, F.joined, F.deferrals, F.admitted, F.reason, F.accepted))
  local here = {}
  if not state then
    local holder, newest
    if collapse ~= '' then
      holder = redis.call('HGET', collapse_set(backlog.category, agenda.user), collapse)
      newest = redis.call('GET', newest_key(backlog.category, agenda.user, collapse))
    end
    local arrival = holder and redis.call('HGET', partition .. 'n:' .. holder, F.arrival)
    if arrival then put_waiting(here, backlog, holder) end
    return { '', 0, 0, 0, '', 0, '', here, tonumber(arrival or 0), tonumber(newest or 0) }
  end
  local at_place, before, deferred, line = put_waiting(here, backlog, id), 0, false, ''
  if at_place then
    before = redis.call('ZCOUNT', backlog.key, '-inf', '(' .. digits(at_place))
    deferred = was_deferred(backlog, joined)
    if deferred and not deferrals then line = deferral_of(backlog, tonumber(accepted)) end
  end
  return { state, at_place and 1 or 0, before, deferred and backlog.next > 0 and 1 or 0, line, tonumber(admitted or 0),
    reason or '', here, 0, 0 }
end

local notifications = {}
while i <= #ARGV do
  notifications[#notifications + 1] = look_at(ARGV[i], backlog_of(agenda, ARGV[i + 1]), ARGV[i + 2])
  i = i + 3
end

local later, count_later = {}, 0
if agenda.has_later then
  put_later(later, agenda, '-inf', '0', most, channels)
  count_later = redis.call('ZCARD', agenda.later)
end
local wakeup = redis.call('ZSCORE', partition .. 'wakeups', agenda.user)
return { now, categories, later, count_later, notifications, others, tonumber(wakeup or 0) }
